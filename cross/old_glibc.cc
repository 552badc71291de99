// Lets programs that are linked against the cross compiler's C library run with glibc 2.27.
//
// Debian's cross library is glibc 2.36, and the linker binds each function to its newest version,
// which older images lack. `ld --wrap=NAME` redirects every call of NAME, also from libstdc++, to
// __wrap_NAME. The wrappers here bind to the oldest version, or replace functions that glibc 2.27
// does not have. The names in KEEP(...) and __wrap_... are also the list of --wrap options
// (cpp_runtime/CMakeLists.txt). cross/check_board.py finds missing ones.
#include <dlfcn.h>
#include <pthread.h>
#include <sys/random.h>
#include <sys/stat.h>

#include <ctime>

#if defined(__aarch64__)
#define OLDEST "GLIBC_2.17"
#define SETNAME_SINCE "GLIBC_2.17"
constexpr int kStatVersion = 0;  // _STAT_VER_LINUX of bits/stat.h before glibc 2.33
#elif defined(__arm__)
#define OLDEST "GLIBC_2.4"
#define SETNAME_SINCE "GLIBC_2.12"
constexpr int kStatVersion = 3;
#else
#error "unknown oldest version of this machine's C library"
#endif

#define OLD(name, since) __asm__(".symver old_" #name "," #name "@" since)

// The same function in version `since`.
#define KEEP(name, since, result, parameters, arguments) \
  result old_##name parameters;                          \
  OLD(name, since);                                      \
  result __wrap_##name parameters { return old_##name arguments; }

extern "C" {

// 2.28 on 32-bit ARM, for locks of 64-bit offsets only. Its third argument fits into a pointer.
KEEP(fcntl, OLDEST, int, (int file, int command, void* argument), (file, command, argument))

// Moved from libpthread and libdl into libc in 2.34, with a new version.
KEEP(dlclose, OLDEST, int, (void* library), (library))
KEEP(dlerror, OLDEST, char*, (), ())
KEEP(dlopen, OLDEST, void*, (const char* path, int flags), (path, flags))
KEEP(dlsym, OLDEST, void*, (void* library, const char* name), (library, name))
KEEP(pthread_create, OLDEST, int,
     (pthread_t * thread, const pthread_attr_t* attributes, void* (*start)(void*), void* argument),
     (thread, attributes, start, argument))
KEEP(pthread_join, OLDEST, int, (pthread_t thread, void** result), (thread, result))
KEEP(pthread_detach, OLDEST, int, (pthread_t thread), (thread))
KEEP(pthread_setname_np, SETNAME_SINCE, int, (pthread_t thread, const char* name), (thread, name))
KEEP(pthread_once, OLDEST, int, (pthread_once_t * control, void (*routine)()), (control, routine))
KEEP(pthread_key_create, OLDEST, int, (pthread_key_t * key, void (*destroy)(void*)), (key, destroy))
KEEP(pthread_key_delete, OLDEST, int, (pthread_key_t key), (key))
KEEP(pthread_getspecific, OLDEST, void*, (pthread_key_t key), (key))
KEEP(pthread_setspecific, OLDEST, int, (pthread_key_t key, const void* value), (key, value))
KEEP(pthread_rwlock_rdlock, OLDEST, int, (pthread_rwlock_t * lock), (lock))
KEEP(pthread_rwlock_wrlock, OLDEST, int, (pthread_rwlock_t * lock), (lock))
KEEP(pthread_rwlock_unlock, OLDEST, int, (pthread_rwlock_t * lock), (lock))
KEEP(pthread_condattr_setclock, OLDEST, int, (pthread_condattr_t * attributes, clockid_t clock),
     (attributes, clock))
KEEP(pthread_mutex_trylock, OLDEST, int, (pthread_mutex_t * mutex), (mutex))
KEEP(pthread_setaffinity_np, OLDEST, int,
     (pthread_t thread, std::size_t bytes, const cpu_set_t* cores), (thread, bytes, cores))
// 2.32: moved into libc; the versions in libpthread behave the same.
KEEP(pthread_attr_setaffinity_np, OLDEST, int,
     (pthread_attr_t * attributes, std::size_t bytes, const cpu_set_t* cores),
     (attributes, bytes, cores))
// 2.29: no longer calls matherr.
KEEP(exp, OLDEST, double, (double x), (x))
KEEP(log, OLDEST, double, (double x), (x))

// 2.33: functions of libc; before that, inline functions that call these.
int __fxstat(int version, int file, struct stat* status);
int __lxstat(int version, const char* path, struct stat* status);
int __xstat(int version, const char* path, struct stat* status);
int __fxstat64(int version, int file, struct stat64* status);
int __lxstat64(int version, const char* path, struct stat64* status);
int __xstat64(int version, const char* path, struct stat64* status);
int __wrap_fstat(int file, struct stat* status) { return __fxstat(kStatVersion, file, status); }
int __wrap_lstat(const char* path, struct stat* status) {
  return __lxstat(kStatVersion, path, status);
}
int __wrap_stat(const char* path, struct stat* status) {
  return __xstat(kStatVersion, path, status);
}
int __wrap_fstat64(int file, struct stat64* status) {
  return __fxstat64(kStatVersion, file, status);
}
int __wrap_lstat64(const char* path, struct stat64* status) {
  return __lxstat64(kStatVersion, path, status);
}
int __wrap_stat64(const char* path, struct stat64* status) {
  return __xstat64(kStatVersion, path, status);
}

// 2.32: set by libc if there is only one thread. "No" is always correct.
__attribute__((visibility("hidden"))) char __libc_single_threaded = 0;

// 2.36, used by std::random_device.
unsigned __wrap_arc4random() {
  unsigned value = 0;
  while (getrandom(&value, sizeof value, 0) != sizeof value) {
  }
  return value;
}

// 2.34: libc runs a program's initialisers. Before that, code linked into the program did, and libc
// still leaves them to programs that contain such code.
using Initialiser = void (*)(int, char**, char**);
// Weak, because the linker defines them in programs but not in shared libraries.
extern const Initialiser __init_array_start[] __attribute__((visibility("hidden"), weak));
extern const Initialiser __init_array_end[] __attribute__((visibility("hidden"), weak));
void _init();

static void initialise(int argc, char** argv, char** environment) {
  _init();
  for (const Initialiser* each = __init_array_start; each != __init_array_end; ++each) {
    (*each)(argc, argv, environment);
  }
}

using Main = int (*)(int, char**, char**);
int old___libc_start_main(Main main, int argc, char** argv, Initialiser init, void (*fini)(),
                          void (*rtld_fini)(), void* stack_end);
OLD(__libc_start_main, OLDEST);
int __wrap___libc_start_main(Main main, int argc, char** argv, Initialiser /*init*/, void (*fini)(),
                             void (*rtld_fini)(), void* stack_end) {
  return old___libc_start_main(main, argc, argv, initialise, fini, rtld_fini, stack_end);
}

}  // extern "C"
