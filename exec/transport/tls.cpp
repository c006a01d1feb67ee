#include "exec/transport/tls.hpp"

#include <openssl/bio.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/hmac.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <optional>
#include <string_view>

#include "exec/transport/ephemeral_certificate.hpp"
#include "model/base/error.hpp"
#include "model/base/system_fault.hpp"

namespace tandem::exec {
namespace {

constexpr std::array<unsigned char, 2> kAes128GcmSha256{0x13, 0x01};
constexpr std::size_t kReadBufferBytes = std::size_t{64} << 10;
constexpr long kMaxCertificateBytes = 4096;
constexpr std::size_t kDigestBytes = 32;
constexpr std::string_view kBindingLabel = "EXPORTER-Channel-Binding";  // RFC 9266

struct FreeContext {
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};
struct FreeMethod {
  void operator()(BIO_METHOD* method) const { BIO_meth_free(method); }
};
struct FreeSsl {
  void operator()(SSL* ssl) const { SSL_free(ssl); }
};

std::string identity_of(Role client, Role server) {
  return "tandem/1 " + std::string(to_string(client)) + " to " + std::string(to_string(server));
}

// Answers a peer that uses no key, in which case OpenSSL sends nothing, with the alert
// protocol_version (RFC 8446, 6): the peer recognises TLS.
void send_alert(int socket) {
  constexpr std::array<unsigned char, 7> kAlert{21, 3, 3, 0, 2, 2, 70};
  static_cast<void>(::send(socket, kAlert.data(), kAlert.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
}

// Returns the first of OpenSSL's errors. Throws Error for a failure of this process, which says
// nothing of the peer or its key: where memory is refused OpenSSL reports that, or only that some
// part of it failed, without a reason of the protocol.
std::string drain_errors() {
  std::string text;
  bool any = false;
  bool of_protocol = false;
  bool of_memory = false;
  while (const unsigned long code = ERR_get_error()) {
    any = true;
    of_memory = of_memory || ERR_GET_REASON(code) == ERR_R_MALLOC_FAILURE;
    of_protocol = of_protocol || (ERR_GET_LIB(code) == ERR_LIB_SSL && !ERR_COMMON_ERROR(code));
    const char* reason = ERR_reason_error_string(code);
    if (text.empty() && reason != nullptr) text = reason;
  }
  if (of_memory || (any && !of_protocol))
    throw Error("TLS failed here (" + text + "), probably: " + model::memory_fault());
  return text.empty() ? "protocol error" : text;
}

// OpenSSL's own socket BIO raises SIGPIPE when the peer is gone; this one does not.
int socket_of(BIO* bio) { return *static_cast<const int*>(BIO_get_data(bio)); }

int send_bytes(BIO* bio, const char* data, int size) {
  BIO_clear_retry_flags(bio);
  const ssize_t sent = ::send(socket_of(bio), data, static_cast<std::size_t>(size), MSG_NOSIGNAL);
  if (sent < 0 && (errno == EAGAIN || errno == EINTR)) BIO_set_retry_write(bio);
  return static_cast<int>(sent);
}

int receive_bytes(BIO* bio, char* data, int size) {
  BIO_clear_retry_flags(bio);
  const ssize_t got = ::recv(socket_of(bio), data, static_cast<std::size_t>(size), 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) BIO_set_retry_read(bio);
  if (got == 0) BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
  return static_cast<int>(got);
}

long control_socket(BIO* bio, int command, long /*number*/, void* /*pointer*/) {
  if (command == BIO_CTRL_EOF) return BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0 ? 1 : 0;
  return command == BIO_CTRL_FLUSH ? 1 : 0;
}

int accept_any_certificate(int /*verified*/, X509_STORE_CTX* /*chain*/) { return 1; }

[[noreturn]] void refuse(std::string_view what) {
  throw Error("TLS: " + std::string(what) + " failed: " + drain_errors() +
              "; OpenSSL 3 with TLS 1.3 is needed");
}

}  // namespace

struct Tls::State {
  Key key{};
  bool is_server = false;
  bool has_key = true;     // false: an unauthenticated connection
  bool is_shaken = false;  // the handshake is done
  Role self = Role::worker;
  Role peer = Role::worker;    // of a client: the server's role
  std::optional<Role> proved;  // of a server: the client's role
  std::string identity;        // of a client
  std::string fault;
  int socket = -1;
  std::unique_ptr<BIO_METHOD, FreeMethod> method;
  std::unique_ptr<SSL_CTX, FreeContext> context;
  std::unique_ptr<SSL, FreeSsl> ssl;

  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { OPENSSL_cleanse(key.data(), key.size()); }

  // Null if OpenSSL refuses.
  SSL_SESSION* session_for(SSL* on, const std::string& name) const {
    std::array<unsigned char, 32> secret{};
    unsigned int size = 0;
    const SSL_CIPHER* cipher = SSL_CIPHER_find(on, kAes128GcmSha256.data());
    if (cipher == nullptr || HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
                                  reinterpret_cast<const unsigned char*>(name.data()), name.size(),
                                  secret.data(), &size) == nullptr) {
      return nullptr;
    }
    SSL_SESSION* session = SSL_SESSION_new();
    const bool good = session != nullptr &&
                      SSL_SESSION_set1_master_key(session, secret.data(), size) == 1 &&
                      SSL_SESSION_set_cipher(session, cipher) == 1 &&
                      SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1;
    OPENSSL_cleanse(secret.data(), secret.size());
    if (good) return session;
    SSL_SESSION_free(session);
    return nullptr;
  }

  static int offer_key(SSL* ssl, const EVP_MD* /*digest*/, const unsigned char** id,
                       std::size_t* id_size, SSL_SESSION** session) {
    auto* state = static_cast<State*>(SSL_get_app_data(ssl));
    *session = state->session_for(ssl, state->identity);
    *id = reinterpret_cast<const unsigned char*>(state->identity.data());
    *id_size = state->identity.size();
    return *session != nullptr ? 1 : 0;
  }

  static int find_key(SSL* ssl, const unsigned char* id, std::size_t id_size,
                      SSL_SESSION** session) {
    auto* state = static_cast<State*>(SSL_get_app_data(ssl));
    const std::string_view offered(reinterpret_cast<const char*>(id), id_size);
    *session = nullptr;  // without a session the handshake fails: there is no certificate
    for (const Role role : {Role::master, Role::worker}) {
      const std::string name = identity_of(role, state->self);
      if (offered != name) continue;
      *session = state->session_for(ssl, name);
      state->proved = role;
      return *session != nullptr ? 1 : 0;
    }
    return 1;
  }

  void start(int descriptor) {
    ERR_clear_error();
    context.reset(SSL_CTX_new(is_server ? TLS_server_method() : TLS_client_method()));
    SSL_CTX* ctx = context.get();
    if (ctx == nullptr || SSL_CTX_set_min_proto_version(ctx, TLS1_3_VERSION) != 1 ||
        SSL_CTX_set_max_proto_version(ctx, TLS1_3_VERSION) != 1 ||
        SSL_CTX_set_ciphersuites(ctx, "TLS_AES_128_GCM_SHA256") != 1 ||
        SSL_CTX_set1_groups_list(ctx, "X25519:P-256") != 1 ||
        SSL_CTX_set_num_tickets(ctx, 0) != 1) {
      refuse("setting up");
    }
    SSL_CTX_set_options(ctx, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION);
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_clear_mode(ctx, SSL_MODE_AUTO_RETRY);
    // One read() takes a whole record, or several of them.
    SSL_CTX_set_read_ahead(ctx, 1);
    SSL_CTX_set_default_read_buffer_len(ctx, kReadBufferBytes);
    if (!has_key) {
      if (!use_ephemeral_certificate(ctx)) refuse("making a certificate");
      SSL_CTX_set_max_cert_list(ctx, kMaxCertificateBytes);
      SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT,
                         accept_any_certificate);
    } else if (is_server) {
      SSL_CTX_set_psk_find_session_callback(ctx, find_key);
    } else {
      // A server that shows a certificate instead of the key is refused: no authority is trusted.
      SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, nullptr);
      SSL_CTX_set_psk_use_session_callback(ctx, offer_key);
    }
    socket = descriptor;
    method.reset(BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "tandem"));
    if (method == nullptr || BIO_meth_set_write(method.get(), send_bytes) != 1 ||
        BIO_meth_set_read(method.get(), receive_bytes) != 1 ||
        BIO_meth_set_ctrl(method.get(), control_socket) != 1) {
      refuse("setting up");
    }
    ssl.reset(SSL_new(ctx));
    BIO* bio = BIO_new(method.get());
    if (ssl == nullptr || bio == nullptr) {
      BIO_free(bio);
      refuse("opening");
    }
    BIO_set_data(bio, &socket);
    BIO_set_init(bio, 1);
    SSL_set_bio(ssl.get(), bio, bio);
    SSL_set_app_data(ssl.get(), this);
    if (is_server) {
      SSL_set_accept_state(ssl.get());
    } else {
      SSL_set_connect_state(ssl.get());
    }
  }

  // Sets `fault` to what the error of a handshake says of the peer, where that is known.
  void explain(unsigned long code) {
    if (ERR_GET_LIB(code) != ERR_LIB_SSL) return;
    switch (ERR_GET_REASON(code)) {
      case SSL_R_BINDER_DOES_NOT_VERIFY:
      case SSL_R_SSLV3_ALERT_ILLEGAL_PARAMETER:  // the peer's answer to such a binder
        fault = "its key is another one";
        break;
      case SSL_R_WRONG_VERSION_NUMBER:
        fault =
            "it uses no key; start it with --key FILE, or, on one machine, leave --key out here";
        if (is_server) send_alert(socket);
        break;
      default:
        break;
    }
  }

  Progress progress_of(int result) {
    if (result > 0) return Progress::done;
    switch (SSL_get_error(ssl.get(), result)) {
      case SSL_ERROR_WANT_READ:
        return Progress::wants_read;
      case SSL_ERROR_WANT_WRITE:
        return Progress::wants_write;
      case SSL_ERROR_ZERO_RETURN:
        return Progress::closed;
      case SSL_ERROR_SYSCALL:
        ERR_clear_error();
        return Progress::closed;
      default:
        break;
    }
    // OpenSSL 3 reports an end of file without close_notify as a protocol error.
    const unsigned long code = ERR_peek_error();
    const bool end = ERR_GET_REASON(code) == SSL_R_UNEXPECTED_EOF_WHILE_READING;
    fault = drain_errors();
    if (has_key && !is_shaken) explain(code);
    return end ? Progress::closed : Progress::failed;
  }
};

Tls::Tls(std::unique_ptr<State> state) : state_(std::move(state)) {}
Tls::Tls(Tls&&) noexcept = default;
Tls& Tls::operator=(Tls&&) noexcept = default;
Tls::~Tls() = default;

Tls Tls::client(int descriptor, const Key& key, Role self, Role peer) {
  auto state = std::make_unique<State>();
  state->key = key;
  state->self = self;
  state->peer = peer;
  state->identity = identity_of(self, peer);
  state->start(descriptor);
  return Tls(std::move(state));
}

Tls Tls::server(int descriptor, const Key& key, Role self) {
  auto state = std::make_unique<State>();
  state->key = key;
  state->is_server = true;
  state->self = self;
  state->start(descriptor);
  return Tls(std::move(state));
}

Tls Tls::unauthenticated_client(int descriptor) {
  auto state = std::make_unique<State>();
  state->has_key = false;
  state->start(descriptor);
  return Tls(std::move(state));
}

Tls Tls::unauthenticated_server(int descriptor) {
  auto state = std::make_unique<State>();
  state->has_key = false;
  state->is_server = true;
  state->start(descriptor);
  return Tls(std::move(state));
}

Tls::Progress Tls::handshake() {
  ERR_clear_error();
  SSL* ssl = state_->ssl.get();
  const Progress progress = state_->progress_of(SSL_do_handshake(ssl));
  if (progress != Progress::done) return progress;
  const bool keyed =
      SSL_session_reused(ssl) == 1 && (!state_->is_server || state_->proved.has_value());
  const bool good = state_->has_key ? keyed : SSL_get0_peer_certificate(ssl) != nullptr;
  state_->is_shaken = good && SSL_version(ssl) == TLS1_3_VERSION;
  if (state_->is_shaken) return Progress::done;
  state_->fault = "the key was not used";
  return Progress::failed;
}

Role Tls::client_role() const {
  require(state_->proved.has_value(), "TLS: the handshake is not done");
  return *state_->proved;
}

ChannelBinding Tls::channel_binding() const {
  const SSL* ssl = state_->ssl.get();
  ChannelBinding binding{};
  const X509* own = SSL_get_certificate(ssl);
  const X509* other = SSL_get0_peer_certificate(ssl);
  if (SSL_export_keying_material(state_->ssl.get(),
                                 reinterpret_cast<unsigned char*>(binding.data()), kDigestBytes,
                                 kBindingLabel.data(), kBindingLabel.size(), nullptr, 0, 0) != 1 ||
      !digest_certificate(state_->is_server ? own : other, binding.data() + kDigestBytes) ||
      !digest_certificate(state_->is_server ? other : own, binding.data() + 2 * kDigestBytes)) {
    refuse("binding to the connection");
  }
  return binding;
}

Tls::Progress Tls::read(std::span<std::byte> into, std::size_t& bytes) {
  bytes = 0;
  return state_->progress_of(SSL_read_ex(state_->ssl.get(), into.data(), into.size(), &bytes));
}

Tls::Progress Tls::write(std::span<const std::byte> from, std::size_t& bytes) {
  bytes = 0;
  return state_->progress_of(SSL_write_ex(state_->ssl.get(), from.data(), from.size(), &bytes));
}

const std::string& Tls::fault() const { return state_->fault; }

}  // namespace tandem::exec
