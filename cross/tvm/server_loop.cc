// TVM's functions rpc.ServerLoop and rpc.ReturnException, which edgepipe-rpcd calls. TVM's own
// (rpc_socket_impl.cc) need a header that its wheels lack.
#include <sys/socket.h>
#include <tvm/ffi/reflection/registry.h>
#include <tvm/support/io.h>
#include <tvm/support/serializer.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "rpc/rpc_endpoint.h"

namespace {

using tvm::runtime::RPCChannel;
using tvm::runtime::RPCEndpoint;
using tvm::runtime::RPCReference;

/// Owns the descriptor of a connected socket. Both calls block; they throw ffi::Error.
class Connection final : public RPCChannel {
 public:
  explicit Connection(int descriptor) : descriptor_(descriptor) {}
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection() override { ::close(descriptor_); }

  size_t Send(const void* data, size_t size) override {
    return repeat("send", [&] { return ::send(descriptor_, data, size, MSG_NOSIGNAL); });
  }
  size_t Recv(void* data, size_t size) override {
    return repeat("recv", [&] { return ::recv(descriptor_, data, size, 0); });
  }

 private:
  template <typename Call>
  static size_t repeat(const char* name, Call call) {
    ssize_t done = 0;
    do {
      done = call();
    } while (done < 0 && errno == EINTR);
    if (done < 0) TVM_FFI_THROW(InternalError) << name << ": " << std::strerror(errno);
    return static_cast<size_t>(done);
  }

  int descriptor_;
};

/// One message to a socket that stays open.
class Message final : public tvm::support::Stream {
 public:
  explicit Message(int descriptor) : descriptor_(descriptor) {}
  using Stream::Read;
  using Stream::Write;

  void MessageStart(uint64_t /*size*/) {}
  void MessageDone() {}
  size_t Read(void* data, size_t size) override {
    return static_cast<size_t>(::recv(descriptor_, data, size, MSG_WAITALL));
  }
  size_t Write(const void* data, size_t size) override {
    return static_cast<size_t>(::send(descriptor_, data, size, MSG_NOSIGNAL));
  }

 private:
  int descriptor_;
};

void serve(int descriptor) {
  RPCEndpoint::Create(std::make_unique<Connection>(descriptor), "SockServerLoop", "")->ServerLoop();
}

void return_exception(int descriptor, const tvm::ffi::String& text) {
  Message message(descriptor);
  RPCReference::ReturnException(text.c_str(), &message);
}

}  // namespace

TVM_FFI_STATIC_INIT_BLOCK() {
  tvm::ffi::reflection::GlobalDef()
      .def("rpc.ServerLoop", serve)
      .def("rpc.ReturnException", return_exception);
}
