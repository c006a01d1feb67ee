#pragma once

// What a master tells its caller. Private to the master.

#include <mutex>
#include <set>
#include <string>

#include "exec/session/master_options.hpp"

namespace tandem::exec {

// Calls the caller's functions one at a time, whatever threads have something to say.
class MasterVoice {
 public:
  // `options` outlives it.
  explicit MasterVoice(const SessionOptions& options) : options_(&options) {}

  void stage(const std::string& text) {
    const std::lock_guard lock(mutex_);
    if (options_->on_stage) options_->on_stage(text);
  }
  void notify(const std::string& text) {
    const std::lock_guard lock(mutex_);
    if (options_->on_notice) options_->on_notice(text);
  }
  // Each fault once.
  void warn(const std::string& fault, const std::string& consequence = "") {
    const std::lock_guard lock(mutex_);
    if (warned_.insert(fault).second && options_->on_warning) {
      options_->on_warning(fault + consequence);
    }
  }
  // Any other of the caller's functions.
  template <class Call>
  void with(const Call& call) {
    const std::lock_guard lock(mutex_);
    call();
  }

 private:
  const SessionOptions* options_;
  std::mutex mutex_;
  std::set<std::string> warned_;
};

}  // namespace tandem::exec
