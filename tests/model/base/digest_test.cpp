#include "model/base/digest.hpp"

#include <doctest/doctest.h>

namespace tandem::model::digest_test {

TEST_CASE("model/digest: SHA-256 of FIPS 180-2's examples") {
  CHECK(sha256_hex("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(sha256_hex("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(sha256_hex(std::string(1000000, 'a')) ==
        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_CASE("model/digest: bytes in portions have the digest of all of them") {
  const std::string text = "portions of any length, also none";
  const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
  for (std::size_t first = 0; first <= bytes.size(); ++first) {
    CAPTURE(first);
    DigestStream stream;
    stream.update(bytes.first(first));
    stream.update({});
    stream.update(bytes.subspan(first));
    CHECK(to_hex(stream.digest()) == sha256_hex(text));
  }
}

}  // namespace tandem::model::digest_test
