/*
 * What the program can be asked to do. Each takes the words after its name; their number was checked,
 * and a word that may be left out is then a null pointer.
 */
#ifndef COMMANDS_H
#define COMMANDS_H

#define WARM_UP 64ul
#define WINDOWS_MAX 10000000ul
#define PHASE_MAX 0xfffffffful

void command_arm(char **words);
void command_disarm(char **words);
void command_read(char **words);
void command_write(char **words);
void command_many(char **words);
void command_uring(char **words);
void command_passthru(char **words);
void command_udp(char **words);
void command_tcp(char **words);
void command_loop(char **words);
void command_symbols(char **words);
void command_scheduler(char **words);
void command_bind(char **words);
void command_online(char **words);

#endif
