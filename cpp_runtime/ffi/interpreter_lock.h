// InterpreterLockReleased: wait for something that may need this process's Python interpreter.
//
//   const InterpreterLockReleased released;  // a Python stage can end now
//   thread.join();
//
// TVM-FFI releases the lock around a call from Python, not where Python drops its last reference.
#pragma once

namespace edgepipe::binding {

class InterpreterLockReleased {
 public:
  /// Releases the interpreter lock if this thread has it; no effect in a process without Python.
  InterpreterLockReleased();
  InterpreterLockReleased(const InterpreterLockReleased&) = delete;
  InterpreterLockReleased& operator=(const InterpreterLockReleased&) = delete;
  /// Takes it again; blocks until it is free.
  ~InterpreterLockReleased();

 private:
  void* thread_state_ = nullptr;  // Python's; null: the lock was not this thread's
};

/// Keeps Python's state of this thread until the thread ends. Otherwise every call of a Python
/// function creates and frees it. No effect in a process without Python.
void keep_interpreter_thread();

}  // namespace edgepipe::binding
