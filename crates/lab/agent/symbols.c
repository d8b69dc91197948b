/*
 * Copies the kernel's functions to a block device, from where whoever runs the machine reads them: DEV.
 * Lines "ADDRESS NAME [MODULE]\n", ended by a NUL byte. Direct and in large pieces: the page cache
 * would cost more instructions than the list itself.
 */
#include "commands.h"
#include "disk.h"
#include "kallsyms.h"
#include "memory.h"
#include "report.h"
#include "system.h"

#define PIECE_BYTES (512ul << 10)
/* The largest logical block there is: direct I/O comes in multiples of it. */
#define BLOCK_BYTES 4096ul

struct output {
	const char *path;
	i64 fd;
	u8 *piece;
	u64 bytes;
};

static void flush(struct output *output)
{
	i64 written = sys_write(output->fd, output->piece, output->bytes);

	if (written != (i64)output->bytes)
		fail("write", output->path, written);
	output->bytes = 0;
}

static void put_byte(struct output *output, char byte)
{
	output->piece[output->bytes++] = (u8)byte;
	if (output->bytes == PIECE_BYTES)
		flush(output);
}

static void put_word(struct output *output, struct word word)
{
	for (u64 i = 0; i < word.bytes; i++)
		put_byte(output, word.text[i]);
}

static void put_symbol(struct output *output, const struct symbol *symbol)
{
	put_word(output, symbol->address);
	put_byte(output, ' ');
	put_word(output, symbol->name);
	if (symbol->module.bytes != 0) {
		put_byte(output, ' ');
		put_word(output, symbol->module);
	}
	put_byte(output, '\n');
}

static void finish(struct output *output)
{
	put_byte(output, 0);
	while (output->bytes % BLOCK_BYTES != 0)
		put_byte(output, 0);
	if (output->bytes != 0)
		flush(output);
	i64 synced = sys_fsync(output->fd);
	if (synced < 0)
		fail("fsync", output->path, synced);
}

static u32 is_function(char kind)
{
	return kind == 't' || kind == 'T' || kind == 'w' || kind == 'W';
}

void command_symbols(char **words)
{
	struct output output = {.path = words[0], .fd = sys_open(words[0], O_WRONLY | O_DIRECT)};
	struct kallsyms list;
	struct symbol symbol;
	u64 count = 0;
	u64 visible = 0;

	if (output.fd < 0)
		fail("open", output.path, output.fd);
	output.piece = buffer(PIECE_BYTES);
	kallsyms_open(&list);
	while (kallsyms_next(&list, &symbol) == MORE) {
		if (!is_function(symbol.kind))
			continue;
		put_symbol(&output, &symbol);
		visible |= hexadecimal(symbol.address);
		count++;
	}
	if (visible == 0)
		fail("hidden addresses in", "/proc/kallsyms", -EPERM);
	finish(&output);
	done("symbols", count);
}
