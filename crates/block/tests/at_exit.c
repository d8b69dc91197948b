/* Uses a chunk when a thread, and then the process, ends: after the library's variables of those threads are gone. */
#include <capiblock.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static chunk_id_t chunk;
static unsigned char block[4096];
static pthread_key_t key;

static void use(const char *when)
{
    if (cblk_write(chunk, block, 1, 1, 0) != 1 || cblk_read(chunk, block, 1, 1, 0) != 1) {
        printf("%s: failed\n", when);
        _exit(1);
    }
    printf("%s: used\n", when);
    fflush(stdout);
}

static void at_thread_s_end(void *rounds)
{
    /* The last destructors run in the last round. */
    long left = (long)rounds;
    if (left > 1) {
        pthread_setspecific(key, (void *)(left - 1));
        return;
    }
    use("thread");
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    int status;
    waitpid(child, &status, 0);
}

static void at_exit(void)
{
    use("process");
    if (cblk_close(chunk, 0) != 0)
        _exit(2);
}

static void *thread(void *unused)
{
    (void)unused;
    pthread_setspecific(key, (void *)4L);
    use("before");
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t id;

    if (argc != 2 || atexit(at_exit) || pthread_key_create(&key, at_thread_s_end))
        return 2;
    chunk = cblk_open(argv[1], 0, O_RDWR, 0, 0);
    if (chunk == NULL_CHUNK_ID || pthread_create(&id, NULL, thread, NULL) || pthread_join(id, NULL))
        return 2;
    return 0;
}
