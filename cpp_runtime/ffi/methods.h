// Methods: a TVM-FFI module whose functions are methods of one object.
//
//   class CounterModule final : public Methods<CounterModule> {
//    public:
//     static std::span<const Method> methods() {
//       static constexpr std::array kMethods = {entry<&CounterModule::add>("add")};
//       return kMethods;
//     }
//     const char* kind() const final { return "counter"; }
//
//    private:
//     std::int64_t add(std::int64_t n) { return value_ += n; }
//   };
//
// Python holds a C++ object as a module, the only kind of object that TVM's RPC can return. Its
// functions keep it alive. A method has parameters that TVM-FFI converts, or takes
// (PackedArgs, Any*) unconverted.
#pragma once

#include <tvm/ffi/cast.h>
#include <tvm/ffi/extra/module.h>
#include <tvm/ffi/function.h>

#include <optional>
#include <string_view>
#include <utility>

namespace edgepipe::binding {

template <typename Self>
class Methods : public tvm::ffi::ModuleObj {
 public:
  struct Method {
    std::string_view name;
    tvm::ffi::Function (*make)(Self* self);
  };

  int GetPropertyMask() const final { return tvm::ffi::Module::kRunnable; }

  tvm::ffi::Optional<tvm::ffi::Function> GetFunction(const tvm::ffi::String& name) override {
    for (const Method& method : Self::methods()) {
      if (method.name == std::string_view(name.data(), name.size())) {
        return method.make(static_cast<Self*>(this));
      }
    }
    return std::nullopt;
  }

 protected:
  template <auto kMethod>
  static constexpr Method entry(std::string_view name) {
    return {name, [](Self* self) { return bound(self, kMethod); }};
  }

 private:
  static tvm::ffi::Function bound(Self* self,
                                  void (Self::*method)(tvm::ffi::PackedArgs, tvm::ffi::Any*)) {
    return tvm::ffi::Function::FromPacked(
        [module = tvm::ffi::GetRef<tvm::ffi::Module>(self), self, method](
            tvm::ffi::PackedArgs args, tvm::ffi::Any* result) { (self->*method)(args, result); });
  }

  template <typename Result, typename... Arguments>
  static tvm::ffi::Function bound(Self* self, Result (Self::*method)(Arguments...)) {
    return tvm::ffi::Function::FromTyped([module = tvm::ffi::GetRef<tvm::ffi::Module>(self), self,
                                          method](Arguments... arguments) -> Result {
      return (self->*method)(std::forward<Arguments>(arguments)...);
    });
  }
};

}  // namespace edgepipe::binding
