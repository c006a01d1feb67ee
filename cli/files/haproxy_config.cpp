#include "cli/files/haproxy_config.hpp"

#include <algorithm>
#include <cctype>

namespace tandem::cli {
namespace {

constexpr const char* kHead =
    R"(# HAProxy (2.6 or later, Debian's package haproxy) in front of the replicas of this folder.
# Written by 'tandem plan --replicas'. There is no secret in it: clients bear the token, which replicas check.
#
# On each replica's master, with a certificate for its name, all with the same token:
#   tandem serve replica-N.json --weights M --hosts FILE --key FILE --token FILE \
#     --listen 0.0.0.0:8443 --tls-cert CERT --tls-key KEY --allow-host NAME
# NAME: by which clients ask this proxy, other than localhost. Then:
#   haproxy -f haproxy.cfg
# Variables of the environment replace what presetenv has.

global
    # Where clients ask. For other machines than this one: "*:443 ssl crt FILE", with certificate and key in FILE.
    presetenv TANDEM_LISTEN 127.0.0.1:8080
    # The certificates that replicas' ones must be signed by, PEM; self-signed ones by themselves.
    presetenv TANDEM_CA ca.pem
)";

constexpr const char* kMiddle = R"(    ssl-default-server-options ssl-min-ver TLSv1.2

defaults
    mode http
    timeout http-request 10s
    timeout connect 5s
    # A request may wait for others before its first byte.
    timeout client 1h
    timeout server 1h
    option redispatch

frontend clients
    bind "${TANDEM_LISTEN[*]}"
    default_backend replicas

backend replicas
    # As 'tandem simulate' predicts with dispatch leastconn.
    balance leastconn
    # A conversation stays where its beginning is cached: the page's by a cookie, that of other clients by a header with
    # a text of their choice.
    cookie TANDEM_REPLICA insert indirect nocache httponly attr SameSite=Strict
    stick-table type string len 64 size 100k expire 1h
    stick on req.hdr(X-Tandem-Conversation)
    option httpchk
    http-check send meth GET uri /health ver HTTP/1.1 hdr Host localhost
    http-check expect status 200
    # A replica whose name does not resolve gets no requests; reload HAProxy when it does.
    default-server init-addr last,libc,none
)";

// Names of devices are those of hosts, if they can be.
std::string host_name(const planner::Replica& replica, const std::string& number) {
  const auto master = static_cast<std::size_t>(replica.plan.master);
  const std::string& name = replica.plan.cluster.devices()[master].name;
  const bool plain = std::ranges::all_of(
      name, [](unsigned char c) { return std::isalnum(c) != 0 || c == '-' || c == '.'; });
  return plain ? name : "replica-" + number;
}

// "${TANDEM_NAME_2}", quoted.
std::string variable(const char* name, const std::string& number) {
  return std::string("\"${TANDEM_").append(name).append(number).append("}\"");
}

}  // namespace

std::string haproxy_config(std::span<const planner::Replica> replicas) {
  std::string variables = "    # Where replicas listen, and the names of their certificates.\n";
  std::string servers;
  for (std::size_t i = 0; i < replicas.size(); ++i) {
    const std::string number = std::to_string(i + 1);
    const std::string host = host_name(replicas[i], number);
    variables.append("    presetenv TANDEM_REPLICA_").append(number).append(" ").append(host);
    variables.append(":8443\n    presetenv TANDEM_NAME_").append(number).append(" ").append(host);
    variables += '\n';
    const std::string name = variable("NAME_", number);
    servers.append("    server replica-").append(number).append(" ");
    servers.append(variable("REPLICA_", number)).append(" check cookie replica-").append(number);
    servers.append(" ssl verify required ca-file \"${TANDEM_CA}\" verifyhost ").append(name);
    servers.append(" sni str(").append(name).append(") check-sni ").append(name) += '\n';
  }
  return kHead + variables + kMiddle + servers;
}

}  // namespace tandem::cli
