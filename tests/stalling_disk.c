/* Preloaded into a broker: while the file named by STALLING_DISK exists, every sync of the disk waits, or fails with EIO
 * if "fails" is its content. A real disk does both, but not on request. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>

static int is_broken(void) {
    const char *name = getenv("STALLING_DISK");
    char content[6];
    int file;

    while (name != NULL && (file = open(name, O_RDONLY | O_CLOEXEC)) >= 0) {
        ssize_t size = read(file, content, sizeof content);
        close(file);
        if (size > 0) {
            errno = EIO;
            return 1;
        }
        usleep(20000);
    }
    return 0;
}

#define NEXT(name) ((typeof(&name))dlsym(RTLD_NEXT, #name))

int fsync(int descriptor) { return is_broken() ? -1 : NEXT(fsync)(descriptor); }

int fdatasync(int descriptor) { return is_broken() ? -1 : NEXT(fdatasync)(descriptor); }

ssize_t pwritev2(int descriptor, const struct iovec *parts, int count, off_t offset, int flags) {
    return flags && is_broken() ? -1 : NEXT(pwritev2)(descriptor, parts, count, offset, flags);
}

ssize_t pwritev64v2(int descriptor, const struct iovec *parts, int count, off64_t offset, int flags) {
    return flags && is_broken() ? -1 : NEXT(pwritev64v2)(descriptor, parts, count, offset, flags);
}
