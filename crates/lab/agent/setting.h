/* A kernel setting: a file below /sys or /proc that takes a word. */
#ifndef SETTING_H
#define SETTING_H

#include "number.h"

struct setting {
	char path[256];
};

/* The setting of one device: its folder, the device's name, the rest of the path. */
void setting_of(struct setting *setting, const char *folder, const char *device, const char *rest);

/* Writes the word; 0 or -errno. */
i64 setting_write(const struct setting *setting, const char *word);

#endif
