#include "interpreter_lock.h"

#include <dlfcn.h>

namespace edgepipe::binding {
namespace {

/// A function of Python's C interface, looked up, as edgepipe-rpcd runs without Python.
template <typename Function>
Function* python_function(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_DEFAULT, name));
}

}  // namespace

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
