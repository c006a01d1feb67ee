// tandem serve: OpenAI's API over HTTP, for a plan or for this machine.

#include <unistd.h>

#include <filesystem>
#include <iostream>
#include <memory>
#include <mutex>
#include <ostream>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "cli/files/files.hpp"
#include "cli/flags/commands.hpp"
#include "cli/flags/options.hpp"
#include "cli/flags/pooling_flag.hpp"
#include "cli/flags/service_flags.hpp"
#include "cli/flags/service_planner.hpp"
#include "cli/flags/service_prediction.hpp"
#include "cli/views/interruption.hpp"
#include "cli/views/line_log.hpp"
#include "exec/serve/live_session.hpp"
#include "exec/serve/request_desk.hpp"
#include "exec/serve/text_desk.hpp"
#include "exec/tokenizer/chat/model_chat.hpp"
#include "exec/transport/endpoint.hpp"
#include "model/base/error.hpp"
#include "serve/access.hpp"
#include "serve/api_service.hpp"
#include "serve/cluster_board.hpp"
#include "serve/http_server.hpp"
#include "serve/tls_context.hpp"

namespace tandem::cli {
namespace {

Syntax serve_syntax() {
  Syntax syntax{
      .command = "serve",
      .summary =
          "Answers OpenAI's API over HTTP (/v1/chat/completions, /v1/completions,\n"
          "/v1/embeddings of an encoder, /v1/models, /v1/cluster, /health, /metrics), several\n"
          "requests at once, until Ctrl-C; the page for browsers at / has a chat and the cluster.\n"
          "Without a plan this machine serves the model alone in the memory that is available "
          "now.\n"
          "Exit code 3, with the reason, if that is too little.",
      .positionals = {"[plan.json]"},
      .flags = {{"listen", "HOST:PORT",
                 "where to listen; other addresses than 127.0.0.1 or ::1 need --token and "
                 "--tls-cert; port 0: any free one [127.0.0.1:8080]"},
                {"token", "FILE", "what clients must send as 'Authorization: Bearer TOKEN'"},
                {"tls-cert", "FILE", "TLS with this certificate chain, PEM"},
                {"tls-key", "FILE", "its private key, PEM without a passphrase"},
                {"allow-host", "NAME",
                 "a name or address by which clients may ask in addition to localhost and --listen",
                 true},
                kPoolingFlag,
                {"queue", "N", "requests that may wait for others; more are refused [64]"}}};
  const std::vector<Flag> more = service_flags();
  syntax.flags.insert(syntax.flags.begin() + 5, more.begin(), more.end());
  return syntax;
}

exec::Endpoint endpoint_of(const Options& options) {
  exec::Endpoint endpoint = exec::parse_endpoint(options.text_or("listen", "127.0.0.1:8080"),
                                                 "flag '--listen'", /*any_port=*/true);
  if (serve::is_loopback(endpoint.host) || (options.has("token") && options.has("tls-cert")))
    return endpoint;
  throw Error("flag '--listen': '" + endpoint.host +
              "' is more than this machine, expected also '--token FILE' and '--tls-cert FILE' "
              "with '--tls-key FILE'; or listen on 127.0.0.1 and use 'ssh -L' or a reverse proxy");
}

// Null: without TLS.
std::string read_pem(const std::string& path) {
  constexpr std::uintmax_t kMostBytes = 1U << 20U;
  namespace fs = std::filesystem;
  if (fs::exists(path) && (!fs::is_regular_file(path) || fs::file_size(path) > kMostBytes))
    throw Error(path +
                ": no regular file of at most 1 MiB, expected one in PEM; give the file that "
                "'openssl' wrote");
  return read_file(path);
}

std::shared_ptr<boost::asio::ssl::context> tls_of(const Options& options) {
  if (!options.has("tls-cert")) {
    options.refuse({"tls-key"}, "without '--tls-cert', whose key it is; give both");
    return nullptr;
  }
  const std::string certificate = options.required("tls-cert");
  const std::string key = options.required("tls-key");
  return serve::tls_context({.certificate = read_pem(certificate),
                             .certificate_name = certificate,
                             .key = read_pem(key),
                             .key_name = key});
}

serve::OwnHosts hosts_of(const Options& options, const exec::Endpoint& endpoint) {
  serve::OwnHosts hosts{.listening = endpoint.host, .names = options.all("allow-host")};
  for (const std::string& name : hosts.names) {
    const bool is_address = name.find(':') != std::string::npos && serve::is_numeric(name);
    if (is_address || (serve::host_of(name) == name && !name.empty() &&
                       name.find_first_of("/@ ") == std::string::npos))
      continue;
    throw Error("flag '--allow-host': '" + name +
                "', expected a name or an address, without https:// and port");
  }
  return hosts;
}

// The last part of the path of the weights, without the ending of a file.
std::string name_of(const ServiceJob& job) {
  const std::filesystem::path path = job.weights.lexically_normal();
  const std::filesystem::path last = path.has_filename() ? path : path.parent_path();
  const std::string name =
      last.extension() == ".gguf" ? last.stem().string() : last.filename().string();
  return name.empty() || name == "." ? job.service.plan.model.name : name;
}

std::int64_t together_of(const ServiceJob& job) {
  return job.service.policy->several() ? job.service.capacity.sequences : 1;
}

bool encodes(const ServiceJob& job) { return !job.service.plan.model.architecture().generates(); }

serve::ClusterFacts facts_of(const ServiceJob& job, const serve::ApiOptions& api) {
  return {.model = api.model,
          .chats = !api.chat.chat_template.empty(),
          .embeds = encodes(job),
          .policy = std::string(job.service.policy->name),
          .together = together_of(job),
          .devices = job.emulates ? "emulated"
                     : job.hosts  ? "real"
                                  : "this machine",
          .dilation = job.dilation,
          .no_planner = api.planner.reason,
          .formats = api.planner.formats};
}

// Where requests are handed in, of the kind that the model answers.
using Desk = std::variant<std::unique_ptr<exec::RequestDesk>, std::unique_ptr<exec::TextDesk>>;

Desk desk_of(const Options& options, const ServiceJob& job, std::size_t queue) {
  const planner::Plan& plan = job.service.plan;
  if (encodes(job)) {
    exec::TextDeskLimits limits = text_desk_limits(options, job);
    limits.queue = queue;
    return std::make_unique<exec::TextDesk>(limits);
  }
  options.refuse({kPoolingFlag.name}, "with " + plan.model.name + ", which is no encoder");
  exec::DeskLimits limits = desk_limits(job);
  limits.queue = queue;
  return std::make_unique<exec::RequestDesk>(*job.tokenizer, plan.model,
                                             exec::stop_tokens(plan, *job.tokenizer), limits);
}

exec::ServiceDesk& service_of(const Desk& desk) {
  return std::visit([](const auto& own) -> exec::ServiceDesk& { return *own; }, desk);
}

std::string text_of(const exec::TextDeskLimits& limits) {
  return "embeddings of " + std::to_string(limits.width) + " numbers (" +
         std::string(limits.pooling->summary) + ") of texts of up to " +
         std::to_string(limits.tokens) + " tokens";
}

std::string text_of(const ServiceJob& job, const exec::RequestDesk& desk) {
  const std::int64_t together = together_of(job);
  std::string text = (together == 1 ? "one request at a time"
                                    : "up to " + std::to_string(together) + " requests at once") +
                     ", each of up to " + std::to_string(desk.most_positions()) +
                     " tokens with its prompt";
  // Where a prompt is read whole there is memory for so much of it at once.
  const std::int64_t rows = job.service.capacity.rows;
  if (job.service.chunk == 0 && rows < desk.most_positions() - 1)
    text += " of up to " + std::to_string(rows);
  return text;
}

std::string text_of(const ServiceJob& job, const Desk& desk) {
  if (const auto* const texts = std::get_if<std::unique_ptr<exec::TextDesk>>(&desk))
    return text_of((*texts)->limits());
  return text_of(job, *std::get<std::unique_ptr<exec::RequestDesk>>(desk));
}

}  // namespace

int serve_command(const Arguments& arguments, std::ostream& out) {
  constexpr std::int64_t kMostQueue = 100'000;
  constexpr std::chrono::seconds kGrace{10};
  Options options(serve_syntax(), arguments);
  std::mutex mutex;  // of what a signal ends
  exec::ServiceDesk* open = nullptr;
  exec::LiveSession* session = nullptr;
  // First, as reading a plan begins threads.
  const Interruption interruption(
      [&](const std::string& reason) {
        const std::lock_guard lock(mutex);
        if (open == nullptr) {
          write_if_possible(STDERR_FILENO, "tandem: " + reason + "\n");
          _exit(1);
        }
        open->close("the server is shutting down");
        if (session != nullptr) session->stop("the server is shutting down");
      },
      {}, kGrace);
  const exec::Endpoint endpoint = endpoint_of(options);
  serve::ApiOptions api_options{.hosts = hosts_of(options, endpoint)};
  const std::shared_ptr<boost::asio::ssl::context> tls = tls_of(options);
  if (const auto path = options.text("token"))
    api_options.token = serve::parse_token(read_file(*path), *path);
  auto found = service_job(options);
  if (const auto* no = std::get_if<planner::Infeasible>(&found)) {
    out << no->reason << (no->reason.ends_with('\n') ? "" : "\n");
    return 3;
  }
  const ServiceJob& job = std::get<ServiceJob>(found);
  const planner::Plan& plan = job.service.plan;
  const auto queue = static_cast<std::size_t>(options.integer_or("queue", 64, 0, kMostQueue));
  exec::ExecuteOptions run = service_execution(options, job);
  LineLog log("tandem serve: ");
  if (!options.has("quiet"))
    run.on_warning = run.on_notice = [&log](const std::string& text) { log.write(text); };
  api_options.model = name_of(job);
  api_options.chat = exec::read_model_chat(job.weights);
  api_options.vocabulary = plan.model.vocab;
  const char* const no_forecast = "the model is an encoder, whose texts are not predicted here";
  api_options.planner =
      encodes(job) ? serve::PlannerAccess{.reason = no_forecast} : service_planner(options, job);
  const Desk desk = desk_of(options, job, queue);
  exec::DeviceWatch watch;
  run.watch = api_options.watch = &watch;
  options.settle();

  serve::ClusterBoard board(
      plan, facts_of(job, api_options),
      encodes(job) ? serve::Prediction{.reason = no_forecast} : service_prediction(options, job));
  const std::unique_ptr<serve::ApiService> api = std::visit(
      [&](const auto& own) {
        return std::make_unique<serve::ApiService>(api_options, *job.tokenizer, *own, board);
      },
      desk);
  serve::HttpServer server(endpoint, *api, {}, tls);
  api->use(server);
  std::string failure;
  {
    exec::LiveSession serving(plan, std::move(run), service_of(desk),
                              {.on_ready =
                                   [&] {
                                     api->set_ready();
                                     out << "serving " << api_options.model << " on http"
                                         << (tls ? "s" : "") << "://" << to_text(server.endpoint())
                                         << ", " << text_of(job, desk) << std::endl;
                                   },
                               .on_end =
                                   [&](const std::string& reason) {
                                     failure = reason;
                                     server.stop();
                                   }});
    {
      const std::lock_guard lock(mutex);
      open = &service_of(desk);
      session = &serving;
    }
    server.run();
    const std::lock_guard lock(mutex);
    open = nullptr;
    session = nullptr;
  }
  api->end();
  if (!failure.empty()) throw Error(failure);
  return 0;
}

}  // namespace tandem::cli
