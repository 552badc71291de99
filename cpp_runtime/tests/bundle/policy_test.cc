// The policy of a machine, and bundles that it accepts or refuses. Signatures are made and verified
// by the real ssh-keygen.
#include "bundle/policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "bundle/fingerprint.h"
#include "edgepipe/bundle.h"
#include "support/bundle_test_files.h"

namespace edgepipe {
namespace {

namespace fs = std::filesystem;
using testing::Files;
using ::testing::HasSubstr;
using testing::write_file;

std::string read_file(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

class PolicyTest : public ::testing::Test {
 protected:
  PolicyTest() {
    make_key("alice");
    make_key("mallory");
    write_file(path("allowed"),
               "alice@example.com namespaces=\"edgepipe-bundle\" " + read_file(path("alice.pub")));
    require("require_signature=yes\n");
  }

  [[nodiscard]] fs::path path(const std::string& name) const { return scratch_.path() / name; }

  void require(const std::string& lines) {
    write_file(path("policy"), lines + "allowed_signers=" + path("allowed").string() +
                                   "\nhighest_version=" + path("highest").string() + "\n");
  }

  void make_key(const std::string& name) {
    run("ssh-keygen -q -t ed25519 -N '' -C '' -f " + path(name).string());
  }

  static void run(const std::string& command) {
    ASSERT_EQ(std::system(command.c_str()), 0) << command;
  }

  static Files bundle(int version = 0) {
    nlohmann::json manifest = testing::manifest_of(testing::tiny_files());
    manifest["version"] = version;
    return testing::with_manifest(testing::tiny_files(), manifest);
  }

  Files signed_by(const std::string& key, Files files, const char* purpose = "edgepipe-bundle") {
    const std::string text = path("text").string();
    write_file(text, files["manifest.json"]);
    run("ssh-keygen -q -Y sign -n " + std::string(purpose) + " -f " + path(key).string() + " <" +
        text + " >" + text + ".sig");
    files["manifest.sig"] = read_file(text + ".sig");
    return files;
  }

  Result<std::unique_ptr<Bundle>> open(const Files& files) {
    return Bundle::open(scratch_.write_folder("bundle" + std::to_string(++count_), files),
                        path("policy"));
  }

  void expect_refused(const Files& files, Code code, int exit, const std::string& text,
                      const std::string& hint) {
    const Status status = open(files).status();
    EXPECT_EQ(status.code(), code);
    EXPECT_EQ(exit_code(status.code()), exit);
    EXPECT_THAT(status.message(), HasSubstr(text));
    EXPECT_THAT(status.hint(), HasSubstr(hint));
  }

  void expect_unusable(const std::string& lines, const std::string& text) {
    write_file(path("policy"), lines);
    const Status status = open(bundle()).status();
    EXPECT_EQ(status.code(), Code::kUnverifiable);
    EXPECT_EQ(status.message(), path("policy").string() + ": " + text);
    EXPECT_EQ(status.hint(), "as root, correct the file; the guide to boards describes it");
  }

  testing::ScratchFolder scratch_;
  int count_ = 0;
};

TEST_F(PolicyTest, WithoutAPolicyEveryBundleIsAccepted) {
  fs::remove(path("policy"));
  Result<std::unique_ptr<Bundle>> opened = open(bundle());
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  EXPECT_EQ((*opened)->signer(), "");
  EXPECT_TRUE(open(signed_by("mallory", bundle())).ok()) << "nobody has asked for a signature";
}

TEST_F(PolicyTest, AnAllowedSignerIsAcceptedAndNamed) {
  Result<std::unique_ptr<Bundle>> opened = open(signed_by("alice", bundle()));
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  EXPECT_EQ((*opened)->signer(), "alice@example.com");
}

TEST_F(PolicyTest, AnUnsignedBundleIsRefused) {
  expect_refused(bundle(), Code::kUnsigned, 15,
                 "the bundle is not signed, and this machine requires it",
                 "sign it with a key that this machine trusts: `edgepipe sign`");
}

TEST_F(PolicyTest, AnotherSignerIsRefused) {
  expect_refused(signed_by("mallory", bundle()), Code::kOtherSigner, 16,
                 "signed with ED25519 key SHA256:", path("allowed").string());
  EXPECT_EQ(open(signed_by("mallory", bundle())).status().hint(),
            "get the bundle from a signer that this machine trusts, or, as root, add this one to " +
                path("allowed").string());
}

TEST_F(PolicyTest, AnAlteredManifestIsRefused) {
  Files files = signed_by("alice", bundle());
  Files other = bundle(7);
  other["manifest.sig"] = files["manifest.sig"];
  expect_refused(other, Code::kAltered, 17,
                 "manifest.json does not match its signature in manifest.sig",
                 "get the bundle from its signer again");
}

TEST_F(PolicyTest, AnAlteredFileIsRefused) {
  Files files = signed_by("alice", bundle());
  files["stages/1_arm/weights.bin"][3] = '\4';
  expect_refused(files, Code::kAltered, 17,
                 "stages/1_arm/weights.bin does not have the digest that the manifest records",
                 "the bundle is truncated or modified");
}

TEST_F(PolicyTest, ATextThatIsNotASignatureIsRefused) {
  for (const std::string& content : {std::string(), std::string("-----BEGIN SSH SIGNATURE-----\n"),
                                     std::string(100000, '\xff')}) {
    Files files = bundle();
    files["manifest.sig"] = content;
    expect_refused(files, Code::kAltered, 17, "manifest.json does not match its signature",
                   "again");
  }
  expect_refused(signed_by("alice", bundle(), "git"), Code::kAltered, 17,
                 "manifest.json does not match its signature", "again");
}

TEST_F(PolicyTest, AMachineThatCannotVerifyRefuses) {
  fs::remove(path("allowed"));
  expect_refused(signed_by("alice", bundle()), Code::kUnverifiable, 19,
                 "allowed: cannot be read: No such file or directory", "as root");
  EXPECT_EQ(open(signed_by("alice", bundle())).status().hint(),
            "as root, list the signers that this machine trusts in that file");
}

TEST_F(PolicyTest, AMachineWithoutOpenSshSaysSo) {
  const Files files = signed_by("alice", bundle());
  const std::string before = ::getenv("PATH");
  ::setenv("PATH", scratch_.path().c_str(), 1);
  expect_refused(files, Code::kUnverifiable, 19, "ssh-keygen cannot be started",
                 "install the OpenSSH client");
  // What OpenSSH 7.6 answers, which boards with glibc 2.27 may have.
  write_file(path("ssh-keygen"),
             "#!/bin/sh\necho 'unknown option -- Y' >&2\n"
             "echo '       ssh-keygen -Q -f krl_file file ...' >&2\nexit 1\n");
  fs::permissions(path("ssh-keygen"), fs::perms::owner_all);
  expect_refused(files, Code::kUnverifiable, 19,
                 "ssh-keygen: cannot verify signatures, found a version before OpenSSH 8.2",
                 "install OpenSSH 8.2 or later");
  ::setenv("PATH", before.c_str(), 1);
}

TEST_F(PolicyTest, VersionsOnlyGrowWhereThePolicySaysSo) {
  require("require_signature=yes\nversions_only_grow=yes\n");
  EXPECT_TRUE(open(signed_by("alice", bundle(3))).ok()) << "none has been accepted yet";
  write_file(path("highest"), "4\n");
  expect_refused(signed_by("alice", bundle(3)), Code::kOlderRelease, 18,
                 "the bundle's version is 3, this machine accepts 4 and later ones (" +
                     path("highest").string() + ")",
                 "build and sign the bundle again with a version of at least 4");
  EXPECT_TRUE(open(signed_by("alice", bundle(4))).ok());
  EXPECT_TRUE(open(signed_by("alice", bundle(5))).ok());
  require("require_signature=yes\n");
  EXPECT_TRUE(open(signed_by("alice", bundle(3))).ok());
  require("require_signature=yes\nversions_only_grow=yes\n");
  write_file(path("highest"), "four\n");
  expect_refused(signed_by("alice", bundle(9)), Code::kUnverifiable, 19,
                 "highest: found no version, expected a number", "as root, correct the file");
}

TEST_F(PolicyTest, APolicyThatIsNotUnderstoodAcceptsNothing) {
  expect_unusable("# yes\nrequire_signatures=yes\n",
                  "line 2: found 'require_signatures=yes', expected one of require_signature, "
                  "versions_only_grow, allowed_signers, highest_version");
  expect_unusable("require_signature=true\n",
                  "line 1: found 'require_signature=true', expected yes or no");
  expect_unusable("require_signature\n", "line 1: found 'require_signature', expected KEY=VALUE");
  expect_unusable("allowed_signers=keys\n",
                  "line 1: found 'allowed_signers=keys', expected an absolute path");
  expect_unusable("versions_only_grow=yes\n",
                  "versions_only_grow=yes needs require_signature=yes, because only a signature "
                  "makes a version authentic");
  fs::remove(path("policy"));
  fs::create_directory(path("policy"));
  const Status status = open(bundle()).status();
  EXPECT_EQ(status.code(), Code::kUnverifiable);
  EXPECT_EQ(status.message(), path("policy").string() + ": not a regular file");
}

TEST_F(PolicyTest, CommentsAndBlanksAreAllowed) {
  write_file(path("policy"), "\n  # nothing is required\n  require_signature=no \r\n");
  EXPECT_TRUE(open(bundle()).ok());
}

}  // namespace
}  // namespace edgepipe
