// Preloaded into a program of this repository (starved_programs.py): lets each of its allocations
// fail in turn. Counts from the start of main(), so the libraries' own initialisers are spared.
//
// With EDGEPIPE_TEST_STARVED=FOLDER, runs main() in one child process after the other. In process
// n, allocation n fails. What it prints goes to FOLDER/n.once, with its status from waitpid() in
// the last line. n is 1, 1 + EDGEPIPE_TEST_STARVED_STEP and so on, until a process makes fewer than
// n. With EDGEPIPE_TEST_STARVED_EVER, FOLDER/n.ever is the same for a process in which all
// allocations from n on fail.
//
// With EDGEPIPE_TEST_STARVING=FILE, which is mapped: allocation FILE[1], counted down to 0, fails
// in process FILE[0], at any time.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <new>

namespace {

using Main = int (*)(int, char**, char**);

struct Control {
  long process;  // 0: none
  long left;     // allocations until one fails; 0: none fails
  long forever;  // 1: all later ones fail, too
};

Control* control = nullptr;
Main real_main = nullptr;

bool fails() {
  if (control == nullptr || __atomic_load_n(&control->process, __ATOMIC_SEQ_CST) != ::getpid()) {
    return false;
  }
  long left = __atomic_load_n(&control->left, __ATOMIC_SEQ_CST);
  while (left > 0) {
    const long next = left == 1 && control->forever != 0 ? 1 : left - 1;
    if (__atomic_compare_exchange_n(&control->left, &left, next, false, __ATOMIC_SEQ_CST,
                                    __ATOMIC_SEQ_CST)) {
      return left == 1;
    }
  }
  return false;
}

void* allocated(std::size_t bytes, std::size_t alignment) {
  if (fails()) return nullptr;
  const std::size_t rounded = (bytes + alignment) / alignment * alignment;
  return alignment <= alignof(std::max_align_t) ? std::malloc(bytes + 1)
                                                : std::aligned_alloc(alignment, rounded);
}

void* allocated_or_thrown(std::size_t bytes, std::size_t alignment) {
  void* const memory = allocated(bytes, alignment);
  if (memory != nullptr) return memory;
  if (const std::new_handler handler = std::get_new_handler()) handler();
  throw std::bad_alloc();
}

Control* shared(const char* file) {
  const int flags = file == nullptr ? MAP_SHARED | MAP_ANONYMOUS : MAP_SHARED;
  const int descriptor = file == nullptr ? -1 : ::open(file, O_RDWR | O_CLOEXEC);
  void* const memory =
      ::mmap(nullptr, sizeof(Control), PROT_READ | PROT_WRITE, flags, descriptor, 0);
  if (memory == MAP_FAILED) ::_exit(99);
  if (descriptor >= 0) ::close(descriptor);
  return static_cast<Control*>(memory);
}

/// Runs main() in a child process, with an allocation that fails. Whether it came so far.
bool run_starved(const char* folder, long number, bool forever, int argc, char** argv, char** env) {
  char name[4096];
  std::snprintf(name, sizeof name, "%s/%ld.%s", folder, number, forever ? "ever" : "once");
  const int output = ::open(name, O_RDWR | O_CREAT | O_TRUNC, 0644);
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(output, STDOUT_FILENO);
    ::dup2(output, STDERR_FILENO);
    ::close(output);
    *control = {.process = ::getpid(), .left = number, .forever = forever ? 1 : 0};
    std::exit(real_main(argc, argv, env));
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ::lseek(output, 0, SEEK_END);
  ::dprintf(output, "\n%d", status);
  ::close(output);
  return control->left <= (forever ? 1 : 0);
}

int starved_main(int argc, char** argv, char** env) {
  if (const char* const file = std::getenv("EDGEPIPE_TEST_STARVING")) {
    control = shared(file);
    return real_main(argc, argv, env);
  }
  const char* const folder = std::getenv("EDGEPIPE_TEST_STARVED");
  if (folder == nullptr) return real_main(argc, argv, env);
  control = shared(nullptr);
  const char* const step = std::getenv("EDGEPIPE_TEST_STARVED_STEP");
  const bool ever = std::getenv("EDGEPIPE_TEST_STARVED_EVER") != nullptr;
  const long by = step == nullptr ? 1 : std::atol(step);
  for (long number = 1; run_starved(folder, number, false, argc, argv, env); number += by) {
    if (ever) run_starved(folder, number, true, argc, argv, env);
  }
  ::_exit(0);
}

}  // namespace

void* operator new(std::size_t bytes) { return allocated_or_thrown(bytes, 1); }
void* operator new[](std::size_t bytes) { return allocated_or_thrown(bytes, 1); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return allocated_or_thrown(bytes, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return allocated(bytes, 1);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

extern "C" __attribute__((visibility("default"))) int __libc_start_main(Main main, int argc,
                                                                        char** argv, void (*init)(),
                                                                        void (*fini)(),
                                                                        void (*rtld_fini)(),
                                                                        void* stack_end) {
  using Start = int (*)(Main, int, char**, void (*)(), void (*)(), void (*)(), void*);
  const auto start = reinterpret_cast<Start>(::dlsym(RTLD_NEXT, "__libc_start_main"));
  real_main = main;
  return start(starved_main, argc, argv, init, fini, rtld_fini, stack_end);
}
