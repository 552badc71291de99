#include "emulation/guest_memory.h"

#include <string>

namespace edgepipe {

Result<Buffer> GuestMemory::allocate(std::size_t bytes) {
  return Status(Code::kUnsupported, "guest memory: " + std::to_string(bytes) +
                                        " bytes wanted, but the guest allocates its own");
}

Result<std::byte*> GuestMemory::translate(std::uint64_t address, std::size_t bytes) const {
  const std::span<std::byte> memory = mapping_.bytes();
  const std::uint64_t offset = address - base_address_;
  if (address < base_address_ || offset > memory.size() || bytes > memory.size() - offset) {
    return Status(Code::kDevice, "guest memory: " + std::to_string(bytes) + " bytes at " +
                                     std::to_string(address) + " lie outside its " +
                                     std::to_string(memory.size()) + " bytes at " +
                                     std::to_string(base_address_));
  }
  return memory.data() + static_cast<std::size_t>(offset);
}

}  // namespace edgepipe
