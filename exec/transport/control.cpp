#include "exec/transport/control.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "exec/transport/watched_peer.hpp"
#include "model/base/error.hpp"
#include "model/base/system_fault.hpp"

namespace tandem::exec {
namespace {

constexpr std::size_t kReadBytes = std::size_t{64} << 10;
constexpr std::chrono::milliseconds kLinger{200};  // to hand out Aborts, and have them read

}  // namespace

struct Control::State {
  State(std::vector<ControlPeer> given, ControlOptions chosen)
      : options(std::move(chosen)), wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (wake < 0) {
      throw Error("control: no event descriptor: " +
                  model::system_fault(errno, "free some memory"));
    }
    for (ControlPeer& peer : given) peers.emplace_back(std::move(peer));
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { ::close(wake); }

  // Everything below is guarded by `mutex`, which also serialises the use of the connections.
  std::mutex mutex;
  std::condition_variable changed;
  ControlOptions options;
  std::deque<WatchedPeer> peers;  // grows, and references stay
  std::optional<std::string> failure;
  bool failure_told = false;
  bool parting = false;  // a peer's loss is no failure any more
  bool closed = false;   // close() is done
  bool stopping = false;
  int wake;
  std::thread thread;

  void notify() const {
    const std::uint64_t one = 1;
    static_cast<void>(::write(wake, &one, sizeof one) == sizeof one);
  }

  WatchedPeer& find(model::DeviceIndex device) {
    const auto it =
        std::ranges::find_if(peers, [&](const WatchedPeer& peer) { return peer.device == device; });
    require(it != peers.end(), "control: no such peer");
    return *it;
  }

  void check() const {
    if (failure) throw Error(*failure);
  }

  [[noreturn]] static void gone(const WatchedPeer& peer) {
    throw Error(peer.fault.empty() ? peer.connection.peer() + ": has ended the run" : peer.fault);
  }

  // The first failure counts; who caused it is told too, if it still listens.
  void fail(const std::string& reason) {
    if (failure || closed) return;
    failure = reason;
    const std::vector<std::byte> frame = encode(Abort{.reason = reason});
    for (WatchedPeer& peer : peers) {
      peer.queue(frame);
      flush(peer);
    }
    changed.notify_all();
    notify();
  }

  void flush(WatchedPeer& peer) {
    try {
      if (peer.flush()) changed.notify_all();  // senders wait for room
    } catch (const std::exception& fault) {    // also: no memory to encrypt it in
      lose(peer, model::describe(fault));
    }
  }

  // The connection is over.
  void lose(WatchedPeer& peer, const std::string& reason) {
    if (peer.dead) return;
    peer.end();
    if (!(peer.got_goodbye && peer.said_goodbye)) {
      peer.fault = reason;
      if (!parting) fail(reason);
    }
    changed.notify_all();
  }

  void take(WatchedPeer& peer, Message message) {
    if (const auto* heartbeat = std::get_if<Heartbeat>(&message)) return peer.hear(*heartbeat);
    if (const auto* abort = std::get_if<Abort>(&message)) {
      return lose(peer, peer.connection.peer() + ": " + abort->reason);
    }
    if (std::holds_alternative<Goodbye>(message)) peer.got_goodbye = true;
    const std::size_t bytes = sizeof(Received) + peer.reader.bytes();
    peer.inbox_bytes += bytes;
    peer.inbox.push_back({.message = std::move(message), .bytes = bytes});
    changed.notify_all();
  }

  // Reads what is there, within a share that keeps the others served. True if more is left.
  bool read(WatchedPeer& peer, std::span<std::byte> scratch) {
    try {
      for (int turn = 0; turn < 16; ++turn) {
        if (peer.dead || peer.full()) return false;
        const std::size_t got = peer.connection.read_some(scratch);
        if (got == 0) return false;
        peer.heard = Clock::now();
        peer.spoke = true;
        std::span<const std::byte> bytes = scratch.first(got);
        while (std::optional<Message> message = peer.reader.next(bytes)) {
          take(peer, std::move(*message));
          if (peer.dead) return false;
        }
      }
      return true;
    } catch (const std::exception& fault) {  // also: no memory for what it announces
      const std::string text = model::describe(fault);
      const std::string& name = peer.connection.peer();
      lose(peer, text.starts_with(name) ? text : name + ": " + text);
      return false;
    }
  }

  // One that does not keep the protocol, though its connection may be open.
  void blame(WatchedPeer& peer, const std::string& fault) {
    const std::string reason = peer.connection.peer() + ": " + fault;
    if (parting) return lose(peer, reason);
    fail(reason);
  }

  void judge(Clock::time_point now) {
    const auto text = [](Clock::duration time) {
      return std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(time).count()) +
             " ms";
    };
    for (WatchedPeer& peer : peers) {
      if (peer.dead) continue;
      peer.look_whether_it_reads(now);
      const auto limit = peer.spoke ? options.silence : std::max(options.silence, options.first);
      // After its Goodbye a peer has nothing to say, but must still read.
      if (!peer.got_goodbye && now - peer.heard > limit) {
        blame(peer, "silent for " + text(now - peer.heard) + ", expected a heartbeat every " +
                        text(options.heartbeat) +
                        "; check that it runs and that the network reaches it");
      } else if (now - peer.taken > options.unread) {
        blame(peer, "is alive, but took nothing of what was sent to it for " +
                        text(now - peer.taken) +
                        "; install the same tandem on every device, and start it again there");
      }
    }
  }

  void beat() {
    Heartbeat heartbeat = options.activity != nullptr ? options.activity->read() : Heartbeat{};
    if (options.memory) heartbeat.memory_bytes = options.memory();
    for (WatchedPeer& peer : peers) {
      if (peer.dead || peer.said_goodbye || peer.unsent() > 0) continue;
      heartbeat.behind = peer.full();
      peer.queue(encode(heartbeat));
      flush(peer);
    }
  }

  // After a failure: what still comes goes nowhere. Left unread, it would have the kernel reset the
  // connection when that is closed, and the peer might see this before it reads why.
  static void discard(WatchedPeer& peer, std::span<std::byte> scratch) {
    try {
      for (int turn = 0; turn < 16 && !peer.dead; ++turn) {
        if (peer.connection.read_some(scratch) == 0) return;
      }
    } catch (const std::exception&) {
      peer.end();
    }
  }

  // Whether nothing is left to be done for the peers: after a failure, when all have gone, too.
  [[nodiscard]] bool parted() const {
    return failure ? std::ranges::all_of(peers, &WatchedPeer::dead) : drained();
  }

  [[nodiscard]] bool drained() const {
    return std::ranges::all_of(
        peers, [](const WatchedPeer& peer) { return peer.dead || peer.unsent() == 0; });
  }

  void tell_failure(std::unique_lock<std::mutex>& lock) {
    if (!failure || failure_told) return;
    failure_told = true;
    if (!options.on_failure) return;
    const std::string reason = *failure;
    lock.unlock();
    options.on_failure(reason);
    lock.lock();
  }

  // The thread. Whatever ends it early (no memory) fails the session, and peers see no heartbeat.
  void watch() noexcept {
    try {
      run();
    } catch (const std::exception& fault) {
      give_up(fault);
    }
  }

  void give_up(const std::exception& fault) noexcept {
    try {
      std::unique_lock lock(mutex);
      if (!failure) failure = model::describe(fault);
      for (WatchedPeer& peer : peers) peer.end();
      changed.notify_all();
      tell_failure(lock);
    } catch (const std::exception&) {
      return;  // no memory for a short text either: nothing is left to do
    }
  }

  void run() {
    std::vector<std::byte> scratch(kReadBytes);
    std::vector<pollfd> set;
    std::unique_lock lock(mutex);
    Clock::time_point next_beat = Clock::now();
    Clock::time_point last_turn = next_beat;
    Clock::time_point end = Clock::time_point::max();
    bool more = false;
    for (;;) {
      const Clock::time_point now = Clock::now();
      // What was stopped or starved itself cannot judge others.
      if (now - last_turn > options.silence / 2) {
        for (WatchedPeer& peer : peers) {
          peer.heard += now - last_turn;
          peer.taken += now - last_turn;
        }
      }
      last_turn = now;
      if (!failure && now >= next_beat) {
        beat();
        next_beat = now + options.heartbeat;
      }
      if (!failure) judge(now);
      tell_failure(lock);
      if ((failure || stopping) && end == Clock::time_point::max()) end = now + kLinger;
      if ((failure || stopping) && (parted() || now >= end)) {
        if (stopping) return;
        end = Clock::time_point::max();
      }

      set.assign(1, {.fd = wake, .events = POLLIN, .revents = 0});
      for (const WatchedPeer& peer : peers) {
        const int events =
            (peer.full() && !failure ? 0 : POLLIN) | (peer.unsent() > 0 ? POLLOUT : 0);
        set.push_back({.fd = peer.dead || events == 0 ? -1 : peer.connection.descriptor(),
                       .events = static_cast<short>(events),
                       .revents = 0});
      }
      const auto pause = std::chrono::duration_cast<std::chrono::milliseconds>(
          (failure ? end : std::min(next_beat, end)) - Clock::now());
      const int timeout = more ? 0 : static_cast<int>(std::clamp<long>(pause.count() + 1, 1, 100));
      lock.unlock();
      ::poll(set.data(), set.size(), timeout);
      std::uint64_t count = 0;
      static_cast<void>(::read(wake, &count, sizeof count) == sizeof count);
      lock.lock();
      more = false;
      for (std::size_t i = 0; i < peers.size(); ++i) {
        WatchedPeer& peer = peers[i];
        if (peer.full()) peer.heard = Clock::now();  // it is we who do not listen
        if (peer.dead || failure) continue;
        flush(peer);
        more |= read(peer, scratch);
      }
      if (failure) {
        for (WatchedPeer& peer : peers) {
          flush(peer);
          discard(peer, scratch);
        }
      }
    }
  }
};

Control::Control(std::vector<ControlPeer> peers, ControlOptions options)
    : state_(std::make_unique<State>(std::move(peers), std::move(options))) {
  state_->thread = std::thread([state = state_.get()] { state->watch(); });
}

Control::~Control() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stopping = true;
    state_->notify();
  }
  state_->thread.join();
}

void Control::add(ControlPeer peer) {
  const std::lock_guard lock(state_->mutex);
  state_->check();
  state_->peers.emplace_back(std::move(peer));
  state_->notify();
}

void Control::send(model::DeviceIndex to, const Message& message) {
  const std::vector<std::byte> frame = encode(message);
  std::unique_lock lock(state_->mutex);
  WatchedPeer& peer = state_->find(to);
  const bool goodbye = std::holds_alternative<Goodbye>(message);
  if (goodbye && peer.said_goodbye) return state_->check();
  state_->changed.wait(lock, [&] {
    return state_->failure || peer.dead || peer.unsent() <= WatchedPeer::kMaxQueuedBytes;
  });
  state_->check();
  if (peer.dead) State::gone(peer);
  if (goodbye) peer.said_goodbye = true;
  peer.queue(frame);
  state_->flush(peer);
  if (peer.unsent() > 0) state_->notify();
}

void Control::send_all(const Message& message) {
  std::vector<model::DeviceIndex> devices;
  {
    const std::lock_guard lock(state_->mutex);
    for (const WatchedPeer& peer : state_->peers) devices.push_back(peer.device);
  }
  for (const model::DeviceIndex device : devices) send(device, message);
}

Message Control::receive(model::DeviceIndex from, Clock::time_point deadline) {
  std::unique_lock lock(state_->mutex);
  WatchedPeer& peer = state_->find(from);
  const auto ready = [&] { return state_->failure || peer.dead || !peer.inbox.empty(); };
  if (deadline == Clock::time_point::max()) {
    state_->changed.wait(lock, ready);
  } else {
    state_->changed.wait_until(lock, deadline, ready);
  }
  state_->check();
  if (!peer.inbox.empty()) {
    Received next = std::move(peer.inbox.front());
    peer.inbox.pop_front();
    const bool was_full = peer.full();
    peer.inbox_bytes -= next.bytes;
    if (was_full && !peer.full()) state_->notify();
    return std::move(next.message);
  }
  if (peer.dead) State::gone(peer);
  throw Error(peer.connection.peer() + ": sent no message in time; check what it is busy with");
}

PeerState Control::state_of(model::DeviceIndex device) const {
  const std::lock_guard lock(state_->mutex);
  const WatchedPeer& peer = state_->find(device);
  return {.activity = peer.said, .moved = peer.moved, .name = peer.connection.peer()};
}

void Control::say_goodbye() {
  const std::lock_guard lock(state_->mutex);
  state_->parting = true;
}

void Control::abort(const std::string& reason) noexcept {
  try {
    const std::lock_guard lock(state_->mutex);
    state_->fail(reason);
  } catch (const std::exception&) {
    // Out of memory: the destructor closes the connections, which tells the peers as well.
  }
}

bool Control::failed() const {
  const std::lock_guard lock(state_->mutex);
  return state_->failure.has_value();
}

void Control::check() const {
  const std::lock_guard lock(state_->mutex);
  state_->check();
}

std::vector<std::string> Control::close(Clock::time_point deadline) {
  const std::vector<std::byte> goodbye = encode(Goodbye{});
  std::unique_lock lock(state_->mutex);
  state_->check();
  for (WatchedPeer& peer : state_->peers) {
    if (peer.dead || peer.said_goodbye) continue;
    peer.said_goodbye = true;
    peer.queue(goodbye);
    state_->flush(peer);
  }
  state_->notify();
  const auto over = [](const WatchedPeer& peer) {
    return peer.got_goodbye ? peer.dead || peer.unsent() == 0 : peer.dead;
  };
  state_->changed.wait_until(
      lock, deadline, [&] { return state_->failure || std::ranges::all_of(state_->peers, over); });
  state_->check();
  state_->closed = true;
  std::vector<std::string> faults;
  for (const WatchedPeer& peer : state_->peers) {
    if (!peer.fault.empty()) {
      faults.push_back(peer.fault);
    } else if (!over(peer)) {
      faults.push_back(peer.connection.peer() + ": did not end the run in time");
    }
  }
  return faults;
}

void Control::unexpected(model::DeviceIndex from, const Message& got, const Message& wanted) const {
  throw Error(state_of(from).name + ": sent " + std::string(name_of(got)) + ", expected " +
              std::string(name_of(wanted)) + "; install the same tandem on every device");
}

}  // namespace tandem::exec
