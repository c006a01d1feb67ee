#pragma once

// Private to transport/.

#include "model/base/error.hpp"

namespace tandem::exec {

// The peer is a tandem that speaks another version of the protocol.
class VersionError : public Error {
 public:
  using Error::Error;
};

}  // namespace tandem::exec
