#include "setting.h"

#include "report.h"
#include "system.h"

static u64 append(struct setting *setting, u64 bytes, const char *text)
{
	for (; *text != 0; text++) {
		if (bytes == sizeof(setting->path) - 1)
			fail("path too long at", text, -EINVAL);
		setting->path[bytes++] = *text;
	}
	setting->path[bytes] = 0;
	return bytes;
}

void setting_of(struct setting *setting, const char *folder, const char *device, const char *rest)
{
	append(setting, append(setting, append(setting, 0, folder), device), rest);
}

static u64 length(const char *text)
{
	u64 bytes = 0;

	while (text[bytes] != 0)
		bytes++;
	return bytes;
}

i64 setting_write(const struct setting *setting, const char *word)
{
	i64 fd = sys_open(setting->path, O_WRONLY);

	if (fd < 0)
		return fd;
	i64 written = sys_write(fd, word, length(word));
	sys_close(fd);
	return written < 0 ? written : 0;
}
