#include "interpreter_lock.h"

#include <dlfcn.h>

namespace edgepipe::binding {
namespace {

/// A function of Python's C API, looked up at run time: edgepipe-rpcd runs without Python.
template <typename Function>
Function* python_function(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_DEFAULT, name));
}

class InterpreterThread {
 public:
  InterpreterThread() {
    const auto is_initialized = python_function<int()>("Py_IsInitialized");
    const auto ensure = python_function<int()>("PyGILState_Ensure");
    const auto release = python_function<void*()>("PyEval_SaveThread");
    if (is_initialized == nullptr || ensure == nullptr || release == nullptr) return;
    if (is_initialized() == 0) return;
    gil_state_ = ensure();
    thread_state_ = release();
  }

  ~InterpreterThread() {
    if (thread_state_ == nullptr || python_function<int()>("Py_IsInitialized")() == 0) return;
    python_function<void(void*)>("PyEval_RestoreThread")(thread_state_);
    python_function<void(int)>("PyGILState_Release")(gil_state_);
  }

  InterpreterThread(const InterpreterThread&) = delete;
  InterpreterThread& operator=(const InterpreterThread&) = delete;

 private:
  int gil_state_ = 0;
  void* thread_state_ = nullptr;
};

}  // namespace

void keep_interpreter_thread() { thread_local const InterpreterThread kept; }

InterpreterLockReleased::InterpreterLockReleased() {
  const auto is_initialized = python_function<int()>("Py_IsInitialized");
  const auto holds_lock = python_function<int()>("PyGILState_Check");
  const auto release = python_function<void*()>("PyEval_SaveThread");
  if (is_initialized == nullptr || holds_lock == nullptr || release == nullptr) return;
  if (is_initialized() != 0 && holds_lock() != 0) thread_state_ = release();
}

InterpreterLockReleased::~InterpreterLockReleased() {
  if (thread_state_ != nullptr) python_function<void(void*)>("PyEval_RestoreThread")(thread_state_);
}

}  // namespace edgepipe::binding
