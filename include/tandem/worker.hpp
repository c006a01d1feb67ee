#pragma once

#include <filesystem>
#include <functional>
#include <stop_token>
#include <string>

namespace tandem {

struct WorkerOptions {
  std::string listen = "127.0.0.1:0";  // HOST:PORT; port 0: any free one
  std::filesystem::path key_file{};    // needed unless the host is a loopback address
  std::filesystem::path cache_dir{};   // where weights are kept; empty: ~/.cache/tandem
  int threads = 0;                     // computing threads; 0: all cores
  bool once = false;                   // return after one session
  std::stop_token stop{};              // makes serve() return
  // Called once, with the real port: "127.0.0.1:40123".
  std::function<void(const std::string& address)> on_listening{};
  // One line about a session or a rejected client. Any thread calls it; nothing is served
  // meanwhile.
  std::function<void(const std::string& line)> on_log{};
};

// Serves this device to masters, one after another, as `tandem worker` does. A failed session costs
// a log line; with `once` it is thrown. Throws std::runtime_error if it cannot listen.
void serve(const WorkerOptions& options);

// Writes a new key, readable by its owner only, for all devices of a plan. Throws
// std::runtime_error if the file exists.
void write_key(const std::filesystem::path& file);

}  // namespace tandem
