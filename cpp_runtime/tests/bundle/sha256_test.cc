#include "bundle/sha256.h"

#include <gtest/gtest.h>

#include <string>

#include "support/bundle_test_files.h"

namespace edgepipe {
namespace {

struct Vector {
  std::string message;
  const char* digest;
};

// The first three and the last are NIST's (FIPS 180-4, examples of SHA-256, and the million letters
// of the same page). The others surround the lengths at which padding needs another block:
//   python3 -c 'import hashlib; print(hashlib.sha256(bytes(55)).hexdigest())'
std::vector<Vector> vectors() {
  return {
      {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
      {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
      {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
       "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
      {std::string(55, '\0'), "02779466cdec163811d078815c633f21901413081449002f24aa3e80f0b88ef7"},
      {std::string(56, '\0'), "d4817aa5497628e7c77e6b606107042bbba3130888c5f47a375e6179be789fbb"},
      {std::string(63, '\0'), "c7723fa1e0127975e49e62e753db53924c1bd84b8ac1ac08df78d09270f3d971"},
      {std::string(64, '\0'), "f5a5fd42d16a20302798ef6ed309979b43003d2320d9f0e8ea9831a92759fb4b"},
      {std::string(119, '\0'), "f616b0d54e78571a9611f343c9f8e022e859e920381ab0e4d3da01e193a7bd7e"},
      {std::string(120, '\0'), "6edd9f6f9cc92cded36e6c4a580933f9c9f1b90562b46903b806f21902a1a54f"},
      {std::string(1000000, 'a'),
       "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"},
  };
}

TEST(Sha256Test, EveryKernelGivesThePublishedDigests) {
  for (const Sha256Kernel& kernel : sha256_kernels()) {
    for (const Vector& vector : vectors()) {
      EXPECT_EQ(sha256(testing::bytes_of(vector.message), kernel), vector.digest)
          << kernel.name << ", " << vector.message.size() << " bytes";
    }
  }
}

TEST(Sha256Test, KernelsAgreeOnAnyContentAtAnyAddress) {
  std::string text;
  for (unsigned index = 0; index < 5000; ++index)
    text += static_cast<char>(index * 2654435761U >> 24);
  const std::vector<Sha256Kernel> kernels = sha256_kernels();
  for (std::size_t start = 0; start < 17; ++start) {
    const std::string content = text.substr(start, 4096 + start * 3);
    const std::string expected = sha256(testing::bytes_of(content), kernels.back());
    EXPECT_EQ(sha256(testing::bytes_of(content), kernels.front()), expected);
    EXPECT_EQ(sha256(testing::bytes_of(content)), expected);
  }
}

TEST(Sha256Test, ThePortableKernelIsTheLast) {
  EXPECT_EQ(sha256_kernels().back().name, "portable");
}

}  // namespace
}  // namespace edgepipe
