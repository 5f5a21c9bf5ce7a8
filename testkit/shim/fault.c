/*
 * Makes the disk fail when a test wants it to.
 *
 * Put into a process with LD_PRELOAD. Every call that changes a file below FAULT_UNDER is counted; from FAULT_AT on, it does
 * what FAULT_KIND says:
 *
 *   eio, enospc   that one call fails
 *   full          that write is cut short, and from then on there is no room for anything new
 *   dead          from then on everything fails
 *   short         that write is cut short and the next one fails
 *   short-kill    that write is cut short, and the process ends
 *   kill-before   the process ends instead of the call
 *   kill-after    the process ends behind the call
 *   power         the process ends, and the files are what they were when they were last synced; a new file is there only if
 *                 its folder was synced too (a file that was renamed keeps its new name, as journalling file systems do it)
 *
 * `full` and `dead` are over as soon as the file FAULT_OVER exists. FAULT_REPORT names a file that gets the number of calls
 * when the process ends by itself, FAULT_TRACE one that gets a line for each call. FAULT_SHADOW is a folder for `power`: what
 * each file held when it was last synced.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum kind { NONE, EIO_ONCE, ENOSPC_ONCE, FULL, DEAD, SHORT, SHORT_KILL, KILL_BEFORE, KILL_AFTER, POWER };
enum call { WRITE, SYNC, CUT, MAKE, NAME };
enum verdict { GO, FAIL, HALF, GO_THEN_DIE };

static char under[PATH_MAX];
static char over[PATH_MAX];
static char report[PATH_MAX];
static char trace[PATH_MAX];
static char shadow[PATH_MAX];
static size_t under_len;
static long fault_at;
static enum kind kind;
static atomic_long calls;
static atomic_int fail_next;
static atomic_int ended;
/* Counting, doing and copying are one step, so that a power cut has one moment. */
static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;

static void each_file(const char *folder, void (*work)(const char *path, const struct stat *file));
static void remember_path(const char *path, const struct stat *file);

static void setting(char *into, const char *name) {
    const char *value = getenv(name);
    if (value && strlen(value) < PATH_MAX) strcpy(into, value);
}

__attribute__((constructor)) static void begin(void) {
    static const char *names[] = {"", "eio", "enospc", "full", "dead", "short", "short-kill", "kill-before", "kill-after", "power"};
    setting(under, "FAULT_UNDER");
    setting(over, "FAULT_OVER");
    setting(report, "FAULT_REPORT");
    setting(trace, "FAULT_TRACE");
    setting(shadow, "FAULT_SHADOW");
    under_len = strlen(under);
    const char *at = getenv("FAULT_AT");
    fault_at = at ? atol(at) : 0;
    const char *wanted = getenv("FAULT_KIND");
    for (int i = 1; wanted && i < (int)(sizeof names / sizeof *names); i++)
        if (!strcmp(wanted, names[i])) kind = (enum kind)i;
    if (kind == POWER && under_len) each_file(under, remember_path);
}

__attribute__((destructor)) static void end(void) {
    if (!*report) return;
    int fd = (int)syscall(SYS_openat, AT_FDCWD, report, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0) return;
    char text[32];
    int len = snprintf(text, sizeof text, "%ld\n", atomic_load(&calls));
    syscall(SYS_write, fd, text, len);
    syscall(SYS_close, fd);
}

static void die(void) {
    syscall(SYS_kill, (int)syscall(SYS_getpid), SIGKILL);
    for (;;) pause();
}

static int is_below(const char *path) {
    return under_len && !strncmp(path, under, under_len) && (path[under_len] == '/' || path[under_len] == 0);
}

/* The path of an open file, if it is one of ours. */
static int path_of(int fd, char *path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t len = readlink(link, path, PATH_MAX - 1);
    if (len <= 0) return 0;
    path[len] = 0;
    return is_below(path);
}

/* ---- what was synced ---- */

static void shadow_of(const struct stat *file, char *path) {
    snprintf(path, PATH_MAX, "%.4000s/%lx", shadow, (unsigned long)file->st_ino);
}

/* The mark of a file whose name is not on the disk yet. */
static void mark_of(const struct stat *file, char *path) {
    snprintf(path, PATH_MAX, "%.4000s/new-%lx", shadow, (unsigned long)file->st_ino);
}

static void name_is_kept(const char *path, const struct stat *file) {
    char mark[PATH_MAX];
    (void)path;
    mark_of(file, mark);
    syscall(SYS_unlinkat, AT_FDCWD, mark, 0);
}

static void copy_bytes(int from, int to) {
    char bytes[65536];
    off_t at = 0;
    for (;;) {
        ssize_t got = syscall(SYS_pread64, from, bytes, sizeof bytes, at);
        if (got <= 0) break;
        syscall(SYS_pwrite64, to, bytes, got, at);
        at += got;
    }
    syscall(SYS_ftruncate, to, at);
}

/* A file was synced: this is what a power cut leaves of it. */
static void remember(int fd) {
    struct stat file;
    char path[PATH_MAX], own[64];
    if (!*shadow || fstat(fd, &file)) return;
    if (S_ISDIR(file.st_mode) && path_of(fd, path)) each_file(path, name_is_kept);
    if (!S_ISREG(file.st_mode)) return;
    shadow_of(&file, path);
    /* The descriptor may not be readable; the file is. */
    snprintf(own, sizeof own, "/proc/self/fd/%d", fd);
    int from = (int)syscall(SYS_openat, AT_FDCWD, own, O_RDONLY, 0);
    int to = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT, 0600);
    if (from >= 0 && to >= 0) copy_bytes(from, to);
    if (from >= 0) syscall(SYS_close, from);
    if (to >= 0) syscall(SYS_close, to);
}

/* A file is new or gone: what lay under its number before is not its content. */
static void forget(const struct stat *file) {
    char path[PATH_MAX];
    if (!*shadow) return;
    shadow_of(file, path);
    syscall(SYS_unlinkat, AT_FDCWD, path, 0);
    mark_of(file, path);
    syscall(SYS_unlinkat, AT_FDCWD, path, 0);
}

/* Does something with every file below a folder. */
static void each_file(const char *folder, void (*work)(const char *path, const struct stat *file)) {
    DIR *open_folder = opendir(folder);
    if (!open_folder) return;
    struct dirent *item;
    while ((item = readdir(open_folder))) {
        char path[PATH_MAX];
        struct stat file;
        if (!strcmp(item->d_name, ".") || !strcmp(item->d_name, "..")) continue;
        snprintf(path, sizeof path, "%.3000s/%.900s", folder, item->d_name);
        if (lstat(path, &file)) continue;
        if (S_ISDIR(file.st_mode))
            each_file(path, work);
        else if (S_ISREG(file.st_mode))
            work(path, &file);
    }
    closedir(open_folder);
}

/* Whatever was there before the process began is on the disk. */
static void remember_path(const char *path, const struct stat *file) {
    name_is_kept(path, file);
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY, 0);
    if (fd < 0) return;
    remember(fd);
    syscall(SYS_close, fd);
}

static void put_back(const char *path, const struct stat *file) {
    char kept[PATH_MAX], mark[PATH_MAX];
    struct stat marked;
    mark_of(file, mark);
    if (!lstat(mark, &marked)) {
        syscall(SYS_unlinkat, AT_FDCWD, path, 0);
        return;
    }
    shadow_of(file, kept);
    int to = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY, 0);
    int from = (int)syscall(SYS_openat, AT_FDCWD, kept, O_RDONLY, 0);
    if (to >= 0 && from >= 0)
        copy_bytes(from, to);
    else if (to >= 0)
        syscall(SYS_ftruncate, to, 0);
    if (from >= 0) syscall(SYS_close, from);
    if (to >= 0) syscall(SYS_close, to);
}

/* ---- what becomes of a call ---- */

static void note(const char *name, const char *path, const char *fate) {
    char line[PATH_MAX + 96];
    if (!*trace) return;
    int fd = (int)syscall(SYS_openat, AT_FDCWD, trace, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (fd < 0) return;
    int len = snprintf(line, sizeof line, "%ld %s %s %s\n", atomic_load(&calls), name, path + under_len, fate);
    syscall(SYS_write, fd, line, len);
    syscall(SYS_close, fd);
}

static int is_over(void) {
    struct stat file;
    return *over && !stat(over, &file);
}

static enum verdict judge(enum call call) {
    long number = atomic_fetch_add(&calls, 1) + 1;
    if (atomic_load(&ended)) die();
    if (call == WRITE && atomic_exchange(&fail_next, 0)) return errno = ENOSPC, FAIL;
    if (!fault_at || number < fault_at) return GO;
    int now = number == fault_at;
    switch (kind) {
    case EIO_ONCE: return now ? (errno = EIO, FAIL) : GO;
    case ENOSPC_ONCE: return now ? (errno = ENOSPC, FAIL) : GO;
    case FULL:
        if (is_over() || (call != WRITE && call != MAKE)) return GO;
        return now && call == WRITE ? HALF : (errno = ENOSPC, FAIL);
    case DEAD: return is_over() ? GO : (errno = EIO, FAIL);
    case SHORT:
        if (!now) return GO;
        if (call != WRITE) return errno = EIO, FAIL;
        atomic_store(&fail_next, 1);
        return HALF;
    case SHORT_KILL:
        if (!now) return GO;
        if (call != WRITE) die();
        return HALF;
    case KILL_BEFORE:
        if (now) die();
        return GO;
    case KILL_AFTER: return now ? GO_THEN_DIE : GO;
    case POWER:
        if (!now) return GO;
        atomic_store(&ended, 1);
        each_file(under, put_back);
        die();
        return FAIL;
    default: return GO;
    }
}

static enum verdict count(enum call call, const char *name, const char *path) {
    static const char *fates[] = {"goes", "fails", "half", "goes, then the end"};
    enum verdict verdict = judge(call);
    int why = errno;
    note(name, path, fates[verdict]);
    errno = why;
    return verdict;
}

#define REAL(result, name, ...)                                       \
    static result (*real)(__VA_ARGS__);                               \
    if (!real) real = (result(*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name)

#define BEGIN pthread_mutex_lock(&one_at_a_time)
#define END pthread_mutex_unlock(&one_at_a_time)

/* A call that cannot be cut short. */
#define WHOLE(type, call, name, path, act)                 \
    do {                                                   \
        BEGIN;                                             \
        enum verdict verdict = count(call, name, path);    \
        type done = verdict == FAIL ? (type)-1 : (act);    \
        int why = errno;                                   \
        if (verdict == GO_THEN_DIE) die();                 \
        END;                                               \
        errno = why;                                       \
        return done;                                       \
    } while (0)

/* A write, which can be. */
#define PART(name, path, size, act, half)                             \
    do {                                                              \
        BEGIN;                                                        \
        enum verdict verdict = count(WRITE, name, path);              \
        ssize_t done = -1;                                            \
        if (verdict == HALF && (size) < 2) {                          \
            if (kind == SHORT_KILL) die();                            \
            verdict = (errno = ENOSPC, FAIL);                         \
        }                                                             \
        if (verdict == HALF) done = (half);                           \
        else if (verdict != FAIL) done = (act);                       \
        int why = errno;                                              \
        if (verdict == GO_THEN_DIE || (verdict == HALF && kind == SHORT_KILL)) die(); \
        END;                                                          \
        errno = why;                                                  \
        return done;                                                  \
    } while (0)

ssize_t write(int fd, const void *bytes, size_t size) {
    REAL(ssize_t, write, int, const void *, size_t);
    char path[PATH_MAX];
    if (!path_of(fd, path)) return real(fd, bytes, size);
    PART("write", path, size, real(fd, bytes, size), real(fd, bytes, size / 2));
}

ssize_t writev(int fd, const struct iovec *parts, int count_of_parts) {
    REAL(ssize_t, writev, int, const struct iovec *, int);
    char path[PATH_MAX];
    if (!path_of(fd, path) || count_of_parts < 1) return real(fd, parts, count_of_parts);
    PART("writev", path, parts[0].iov_len, real(fd, parts, count_of_parts),
         syscall(SYS_write, fd, parts[0].iov_base, parts[0].iov_len / 2));
}

ssize_t pwrite(int fd, const void *bytes, size_t size, off_t at) {
    REAL(ssize_t, pwrite, int, const void *, size_t, off_t);
    char path[PATH_MAX];
    if (!path_of(fd, path)) return real(fd, bytes, size, at);
    PART("pwrite", path, size, real(fd, bytes, size, at), real(fd, bytes, size / 2, at));
}

ssize_t pwrite64(int fd, const void *bytes, size_t size, off64_t at) {
    REAL(ssize_t, pwrite64, int, const void *, size_t, off64_t);
    char path[PATH_MAX];
    if (!path_of(fd, path)) return real(fd, bytes, size, at);
    PART("pwrite64", path, size, real(fd, bytes, size, at), real(fd, bytes, size / 2, at));
}

static int synced(int done, int fd) {
    if (!done) remember(fd);
    return done;
}

int fsync(int fd) {
    REAL(int, fsync, int);
    char path[PATH_MAX];
    if (!path_of(fd, path)) return real(fd);
    WHOLE(int, SYNC, "fsync", path, synced(real(fd), fd));
}

int fdatasync(int fd) {
    REAL(int, fdatasync, int);
    char path[PATH_MAX];
    if (!path_of(fd, path)) return real(fd);
    WHOLE(int, SYNC, "fdatasync", path, synced(real(fd), fd));
}

int ftruncate(int fd, off_t size) {
    REAL(int, ftruncate, int, off_t);
    char path[PATH_MAX];
    if (!path_of(fd, path)) return real(fd, size);
    WHOLE(int, CUT, "ftruncate", path, real(fd, size));
}

int ftruncate64(int fd, off64_t size) {
    REAL(int, ftruncate64, int, off64_t);
    char path[PATH_MAX];
    if (!path_of(fd, path)) return real(fd, size);
    WHOLE(int, CUT, "ftruncate64", path, real(fd, size));
}

static int renamed(int done, const char *to) {
    struct stat file;
    if (!done && *shadow && !lstat(to, &file)) name_is_kept(to, &file);
    return done;
}

int rename(const char *from, const char *to) {
    REAL(int, rename, const char *, const char *);
    if (!is_below(from)) return real(from, to);
    WHOLE(int, NAME, "rename", from, renamed(real(from, to), to));
}

static int gone(int (*remove_it)(const char *), const char *path) {
    struct stat file;
    int known = !lstat(path, &file);
    int done = remove_it(path);
    if (!done && known) forget(&file);
    return done;
}

int unlink(const char *path) {
    REAL(int, unlink, const char *);
    if (!is_below(path)) return real(path);
    WHOLE(int, NAME, "unlink", path, gone(real, path));
}

int mkdir(const char *path, mode_t mode) {
    REAL(int, mkdir, const char *, mode_t);
    if (!is_below(path)) return real(path, mode);
    WHOLE(int, MAKE, "mkdir", path, real(path, mode));
}

static int made(int fd) {
    struct stat file;
    if (fd >= 0 && *shadow && !fstat(fd, &file)) {
        char mark[PATH_MAX];
        forget(&file);
        mark_of(&file, mark);
        int marking = (int)syscall(SYS_openat, AT_FDCWD, mark, O_WRONLY | O_CREAT, 0600);
        if (marking >= 0) syscall(SYS_close, marking);
    }
    return fd;
}

/* Opening counts where it makes a file. */
static int makes(const char *path, int flags) {
    struct stat file;
    int before = errno;
    int yes = (flags & O_CREAT) && is_below(path) && lstat(path, &file);
    errno = before;
    return yes;
}

#define OPEN(name)                                                       \
    int name(const char *path, int flags, ...) {                         \
        REAL(int, name, const char *, int, ...);                         \
        mode_t mode = 0;                                                 \
        if (flags & (O_CREAT | O_TMPFILE)) {                             \
            va_list more;                                                \
            va_start(more, flags);                                       \
            mode = va_arg(more, mode_t);                                 \
            va_end(more);                                                \
        }                                                                \
        if (!makes(path, flags)) return real(path, flags, mode);         \
        WHOLE(int, MAKE, #name, path, made(real(path, flags, mode)));    \
    }

OPEN(open)
OPEN(open64)

/* ---- names relative to an open folder: the same calls, once the whole path is known ---- */

static int whole_path(int folder, const char *name, char *path) {
    char base[PATH_MAX];
    if (*name == '/') return is_below(name) && snprintf(path, PATH_MAX, "%.4000s", name) > 0;
    if (folder == AT_FDCWD || !path_of(folder, base)) return 0;
    return snprintf(path, PATH_MAX, "%.3000s/%.900s", base, name) > 0;
}

#define OPENAT(name, opens)                                              \
    int name(int folder, const char *path, int flags, ...) {             \
        REAL(int, name, int, const char *, int, ...);                    \
        char whole[PATH_MAX];                                            \
        mode_t mode = 0;                                                 \
        if (flags & (O_CREAT | O_TMPFILE)) {                             \
            va_list more;                                                \
            va_start(more, flags);                                       \
            mode = va_arg(more, mode_t);                                 \
            va_end(more);                                                \
        }                                                                \
        if (whole_path(folder, path, whole) && makes(whole, flags)) return opens(whole, flags, mode); \
        return real(folder, path, flags, mode);                          \
    }

OPENAT(openat, open)
OPENAT(openat64, open64)

int unlinkat(int folder, const char *name, int flags) {
    REAL(int, unlinkat, int, const char *, int);
    char whole[PATH_MAX];
    if (!(flags & AT_REMOVEDIR) && whole_path(folder, name, whole)) return unlink(whole);
    return real(folder, name, flags);
}

int mkdirat(int folder, const char *name, mode_t mode) {
    REAL(int, mkdirat, int, const char *, mode_t);
    char whole[PATH_MAX];
    return whole_path(folder, name, whole) ? mkdir(whole, mode) : real(folder, name, mode);
}

int renameat(int old_folder, const char *from, int new_folder, const char *to) {
    REAL(int, renameat, int, const char *, int, const char *);
    char old_path[PATH_MAX], new_path[PATH_MAX];
    if (whole_path(old_folder, from, old_path) && whole_path(new_folder, to, new_path))
        return rename(old_path, new_path);
    return real(old_folder, from, new_folder, to);
}

/* The only flag that is used is RENAME_NOREPLACE. */
int renameat2(int old_folder, const char *from, int new_folder, const char *to, unsigned int flags) {
    REAL(int, renameat2, int, const char *, int, const char *, unsigned int);
    char old_path[PATH_MAX], new_path[PATH_MAX];
    struct stat file;
    if (flags != RENAME_NOREPLACE || !whole_path(old_folder, from, old_path) || !whole_path(new_folder, to, new_path))
        return real(old_folder, from, new_folder, to, flags);
    if (!lstat(new_path, &file)) return errno = EEXIST, -1;
    return rename(old_path, new_path);
}
