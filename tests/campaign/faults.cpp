// Faults in the calls by which a process changes files, for tests: preloaded with LD_PRELOAD.
//
// Calls are counted where they touch a regular file or a folder below the arena. What the process
// is armed with happens there alone: it is killed at the n-th call, or calls fail with an errno
// once so many bytes were written. Everything is off until faults_arm is called.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

namespace {

std::atomic<bool> armed{false};
std::atomic<int64_t> calls{0}, bytes{0};
int64_t kill_at = 0;     // the call that ends the process; 0 for none
int64_t room = -1;       // bytes that can be written; -1 for no bound
int error_code = 0;      // what calls fail with behind that
char arena[PATH_MAX] = "";
char astray[PATH_MAX] = "";  // a path outside of the arena that was opened to be changed

template <class F>
F real(const char* name, F) {
  return reinterpret_cast<F>(dlsym(RTLD_NEXT, name));
}

bool below(const char* path) {
  if (!path) return false;
  char whole[2 * PATH_MAX];
  if (path[0] != '/') {
    if (!getcwd(whole, PATH_MAX)) return false;
    strcat(whole, "/");
    strncat(whole, path, PATH_MAX - 1);
    path = whole;
  }
  return strncmp(path, arena, strlen(arena)) == 0;
}

// Devices and pipes are no files of anybody's.
bool device(const char* path) {
  return !strncmp(path, "/dev/", 5) || !strncmp(path, "/proc/", 6) || !strncmp(path, "/sys/", 5);
}

bool below(int fd) {
  char link[64], path[PATH_MAX];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t length = readlink(link, path, sizeof path - 1);
  if (length <= 0) return false;
  path[length] = 0;
  return path[0] == '/' && below(path);
}

// Counts one call, which may be the end of the process.
void count() {
  if (++calls == kill_at) {
    kill(getpid(), SIGKILL);
    pause();
  }
}

// Counts one call that adds `more` bytes; true where it has to fail.
bool strike(int64_t more) {
  count();
  if (room < 0) {
    bytes += more;
    return false;
  }
  if (bytes.fetch_add(more) + more <= room) return false;
  errno = error_code;
  return true;
}

// The same for what names a path: one outside of the arena is remembered.
bool hit(const char* path, int64_t more) {
  if (!armed || !path) return false;
  if (below(path)) return strike(more);
  if (!device(path)) strncpy(astray, path, sizeof astray - 1);
  return false;
}

bool writes(int flags) { return (flags & (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC)) != 0; }

bool hit(int fd, int64_t more) { return armed && below(fd) && strike(more); }

// A folder's entry takes room, too: so that a full disk, at 0 bytes, refuses new files.
constexpr int64_t ENTRY = 1;

}  // namespace

extern "C" {

// Arms the process: killed at call `kill_nth` (0: never), `error` behind `bytes_left` (-1: never).
void faults_arm(const char* below_this, int64_t kill_nth, int64_t bytes_left, int error) {
  strncpy(arena, below_this, sizeof arena - 1);
  kill_at = kill_nth;
  room = bytes_left;
  error_code = error;
  calls = bytes = 0;
  armed = true;
}

int64_t faults_calls() { return calls; }
int64_t faults_bytes() { return bytes; }
const char* faults_astray() { return astray; }

#define OPEN(name, parameters, arguments)                                           \
  int name parameters {                                                             \
    va_list rest;                                                                   \
    va_start(rest, flags);                                                          \
    const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) ? va_arg(rest, mode_t) : 0; \
    va_end(rest);                                                                   \
    if (writes(flags) && hit(path, flags & O_CREAT ? ENTRY : 0)) return -1;         \
    static const auto next = real(#name, (int (*) parameters)nullptr);              \
    return next arguments;                                                          \
  }
OPEN(open, (const char* path, int flags, ...), (path, flags, mode))
OPEN(open64, (const char* path, int flags, ...), (path, flags, mode))
OPEN(openat, (int folder, const char* path, int flags, ...), (folder, path, flags, mode))
OPEN(openat64, (int folder, const char* path, int flags, ...), (folder, path, flags, mode))
#undef OPEN

#define FOPEN(name)                                                                    \
  FILE* name(const char* path, const char* mode) {                                     \
    if (strpbrk(mode, "wa+") && hit(path, ENTRY)) return nullptr;                    \
    static const auto next = real(#name, (FILE * (*)(const char*, const char*))nullptr); \
    return next(path, mode);                                                           \
  }
FOPEN(fopen)
FOPEN(fopen64)
#undef FOPEN

// name, result, parameters, arguments, where it lands, bytes it adds
#define CALL(result, name, parameters, arguments, where, more)          \
  result name parameters {                                              \
    if (hit(where, more)) return -1;                                    \
    static const auto next = real(#name, (result(*) parameters)nullptr); \
    return next arguments;                                              \
  }
CALL(ssize_t, write, (int fd, const void* data, size_t n), (fd, data, n), fd, int64_t(n))
CALL(ssize_t, pwrite, (int fd, const void* data, size_t n, off_t at), (fd, data, n, at), fd, int64_t(n))
CALL(ssize_t, pwrite64, (int fd, const void* data, size_t n, off64_t at), (fd, data, n, at), fd, int64_t(n))
CALL(ssize_t, sendfile, (int out, int in, off_t* at, size_t n), (out, in, at, n), out, 4096)
CALL(ssize_t, sendfile64, (int out, int in, off64_t* at, size_t n), (out, in, at, n), out, 4096)
CALL(ssize_t, copy_file_range, (int in, off64_t* from, int out, off64_t* to, size_t n, unsigned flags), (in, from, out, to, n, flags), out, 4096)
CALL(int, ftruncate, (int fd, off_t n), (fd, n), fd, int64_t(n))
CALL(int, ftruncate64, (int fd, off64_t n), (fd, n), fd, int64_t(n))
CALL(int, fsync, (int fd), (fd), fd, 0)
CALL(int, fdatasync, (int fd), (fd), fd, 0)
CALL(int, mkdir, (const char* path, mode_t mode), (path, mode), path, ENTRY)
CALL(int, mkdirat, (int folder, const char* path, mode_t mode), (folder, path, mode), path, ENTRY)
CALL(int, rename, (const char* from, const char* to), (from, to), to, 0)
CALL(int, renameat, (int a, const char* from, int b, const char* to), (a, from, b, to), to, 0)
CALL(int, renameat2, (int a, const char* from, int b, const char* to, unsigned flags), (a, from, b, to, flags), to, 0)
CALL(int, chmod, (const char* path, mode_t mode), (path, mode), path, 0)

ssize_t writev(int fd, const iovec* parts, int n) {
  int64_t total = 0;
  for (int i = 0; i < n; ++i) total += int64_t(parts[i].iov_len);
  if (hit(fd, total)) return -1;
  static const auto next = real("writev", (ssize_t(*)(int, const iovec*, int))nullptr);
  return next(fd, parts, n);
}

// What removes is counted, and may be the end of the process; a full disk still lets go.
#define REMOVE(name, parameters, arguments, where)                  \
  int name parameters {                                             \
    if (armed && below(where)) count();                             \
    static const auto next = real(#name, (int (*) parameters)nullptr); \
    return next arguments;                                          \
  }
REMOVE(unlink, (const char* path), (path), path)
REMOVE(rmdir, (const char* path), (path), path)

// shutil.rmtree removes by an open folder and a name below it.
int unlinkat(int folder, const char* path, int flags) {
  const bool here = armed && (folder == AT_FDCWD || path[0] == '/' ? below(path) : below(folder));
  if (here) count();
  static const auto next = real("unlinkat", (int (*)(int, const char*, int))nullptr);
  return next(folder, path, flags);
}

}  // extern "C"
