#include "exec/testbed/netlink.hpp"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "model/base/descriptor.hpp"
#include "model/base/error.hpp"
#include "model/base/system_fault.hpp"

namespace tandem::exec {
namespace {

template <class T>
void put(std::vector<std::byte>& bytes, std::size_t at, const T& value) {
  std::memcpy(bytes.data() + at, &value, sizeof(value));
}

}  // namespace

NetlinkRequest::NetlinkRequest(std::uint16_t type, std::uint16_t flags,
                               std::span<const std::byte> body)
    : bytes_(NLMSG_SPACE(body.size())) {
  const nlmsghdr header{
      .nlmsg_len = 0,
      .nlmsg_type = type,
      .nlmsg_flags = static_cast<std::uint16_t>(flags | NLM_F_REQUEST | NLM_F_ACK),
      .nlmsg_seq = 1,
      .nlmsg_pid = 0};
  put(bytes_, 0, header);
  std::memcpy(bytes_.data() + NLMSG_HDRLEN, body.data(), body.size());
}

void NetlinkRequest::attribute(std::uint16_t type, std::span<const std::byte> value) {
  const std::size_t at = bytes_.size();
  bytes_.resize(at + RTA_SPACE(value.size()));
  put(bytes_, at,
      rtattr{.rta_len = static_cast<std::uint16_t>(RTA_LENGTH(value.size())), .rta_type = type});
  std::memcpy(bytes_.data() + at + RTA_LENGTH(0), value.data(), value.size());
}

void NetlinkRequest::attribute(std::uint16_t type, std::uint32_t value) {
  attribute(type, std::as_bytes(std::span(&value, 1)));
}

std::size_t NetlinkRequest::begin(std::uint16_t type) {
  const std::size_t at = bytes_.size();
  attribute(type, std::span<const std::byte>());
  return at;
}

void NetlinkRequest::end(std::size_t begun) {
  put(bytes_, begun, static_cast<std::uint16_t>(bytes_.size() - begun));
}

void NetlinkRequest::send(const std::string& what) {
  const auto fail = [&](int error) {
    throw Error("network namespace: " + what + ": " +
                model::system_fault(error, "run as root, on a kernel with network namespaces"));
  };
  put(bytes_, 0, static_cast<std::uint32_t>(bytes_.size()));
  const model::Descriptor socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
  if (!socket.is_open()) fail(errno);
  if (::send(socket.number(), bytes_.data(), bytes_.size(), 0) !=
      static_cast<ssize_t>(bytes_.size()))
    fail(errno);
  alignas(nlmsghdr) std::array<std::byte, 4096> answer{};
  const ssize_t got = ::recv(socket.number(), answer.data(), answer.size(), 0);
  if (got < static_cast<ssize_t>(NLMSG_LENGTH(sizeof(nlmsgerr)))) fail(got < 0 ? errno : EPROTO);
  nlmsgerr verdict{};
  std::memcpy(&verdict, answer.data() + NLMSG_HDRLEN, sizeof(verdict));
  if (verdict.error != 0) fail(-verdict.error);
}

}  // namespace tandem::exec
