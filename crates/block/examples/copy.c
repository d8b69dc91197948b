/* Copies the blocks of one disk to another, eight at a time:
 *
 *     cc copy.c $(pkg-config --cflags --libs iotoll_block) -o copy
 *     ./copy FROM TO
 *
 * FROM and TO are files, block devices or PCI addresses of NVMe controllers. TO is overwritten.
 */
#include <errno.h>
#include <fcntl.h>
#include <iotoll_block.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH = 8, BLOCK_BYTES = 4096 };

/* Says why a call failed, and ends. */
static void fail(const char *what)
{
    char why[256];
    int number = errno;

    if (iotoll_block_error(why, sizeof why) == 0)
        snprintf(why, sizeof why, "%s", strerror(number));
    fprintf(stderr, "copy: %s: %s\n", what, why);
    exit(1);
}

int main(int argc, char **argv)
{
    static unsigned char blocks[DEPTH][BLOCK_BYTES];
    int tags[DEPTH];
    uint64_t status;
    size_t size, room;

    if (argc != 3) {
        fprintf(stderr, "usage: copy FROM TO\n");
        return 2;
    }
    chunk_id_t from = cblk_open(argv[1], DEPTH, O_RDONLY, 0, 0);
    if (from == NULL_CHUNK_ID)
        fail(argv[1]);
    chunk_id_t to = cblk_open(argv[2], DEPTH, O_RDWR, 0, 0);
    if (to == NULL_CHUNK_ID)
        fail(argv[2]);
    if (cblk_get_size(from, &size, 0) || cblk_get_size(to, &room, 0))
        fail("size");
    if (size > room) {
        fprintf(stderr, "copy: %zu blocks do not fit into %zu\n", size, room);
        return 1;
    }
    for (size_t first = 0; first < size; first += DEPTH) {
        size_t number = size - first < DEPTH ? size - first : DEPTH;
        for (size_t i = 0; i < number; i++)
            if (cblk_aread(from, blocks[i], (cflash_offset_t)(first + i), 1, &tags[i], NULL, 0) < 0)
                fail("read");
        /* Each block is written when it was read, while the others are still being read. */
        for (size_t i = 0; i < number; i++) {
            if (cblk_aresult(from, &tags[i], &status, CBLK_ARESULT_BLOCKING) != 1)
                fail("read");
            if (cblk_awrite(to, blocks[i], (cflash_offset_t)(first + i), 1, &tags[i], NULL, 0) < 0)
                fail("write");
        }
        for (size_t i = 0; i < number; i++)
            if (cblk_aresult(to, &tags[i], &status, CBLK_ARESULT_BLOCKING) != 1)
                fail("write");
    }
    if (iotoll_block_flush(to) || cblk_close(to, 0) || cblk_close(from, 0))
        fail("close");
    return 0;
}
