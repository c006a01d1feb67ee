#include "exec/transport/control.hpp"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <functional>
#include <thread>

#include "tests/exec/transport/transport_pair.hpp"
#include "tests/support/sampled.hpp"

namespace tandem::exec::control_test {

using namespace tandem::exec::test;

namespace {

Clock::time_point soon(int ms = 60'000) { return Clock::now() + milliseconds(ms); }

std::unique_ptr<Control> control_of(model::DeviceIndex device, Connection connection,
                                    ControlOptions options = {}) {
  std::vector<ControlPeer> peers;
  peers.push_back({.device = device, .connection = std::move(connection)});
  return std::make_unique<Control>(std::move(peers), std::move(options));
}

// A master and its workers 1 .. n, all in this process.
struct Home {
  explicit Home(int count, const ControlOptions& options = {}) {
    std::vector<ControlPeer> peers;
    for (int i = 1; i <= count; ++i) {
      Connected pair = connect_pair(key, control_hello(i));
      peers.push_back({.device = i, .connection = std::move(pair.client)});
      workers.push_back(control_of(0, std::move(pair.server), options));
    }
    master = std::make_unique<Control>(std::move(peers), options);
  }
  Key key = random_key();
  std::unique_ptr<Control> master;
  std::vector<std::unique_ptr<Control>> workers;
};

// A worker in a process of its own, forked before this process has threads. It waits for a message
// and exits with 0 if that ends as Error.
class Child {
 public:
  Child(const Key& key, model::DeviceIndex device) : socket_({.host = "127.0.0.1"}, true) {
    pid_ = ::fork();
    if (pid_ != 0) return;
    int status = 1;
    try {
      Listener listener(std::move(socket_), key);
      std::optional<Incoming> incoming = listener.accept(within(milliseconds(60'000)));
      incoming->welcome();
      const auto control = control_of(0, std::move(incoming->connection));
      try {
        static_cast<void>(control->receive(0, soon()));
      } catch (const Error& error) {
        status = contains(error.what(), "in time") ? 2 : 0;
      }
    } catch (const std::exception&) {
      status = 3;
    }
    static_cast<void>(device);
    ::_exit(status);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    if (pid_ <= 0 || reaped_) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  void signal(int number) const { ::kill(pid_, number); }
  // Its exit status, or -1 if it still runs after `seconds`.
  [[nodiscard]] int wait(double seconds) {
    const Clock::time_point start = Clock::now();
    int status = 0;
    while (::waitpid(pid_, &status, WNOHANG) == 0) {
      if (seconds_since(start) > seconds) return -1;
      std::this_thread::sleep_for(milliseconds(5));
    }
    reaped_ = true;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  [[nodiscard]] const Endpoint& endpoint() const { return socket_.endpoint(); }

 private:
  ListenSocket socket_;
  pid_t pid_ = -1;
  bool reaped_ = false;
};

// Two workers in their own processes; `harm` is done to the first. Both this process and the second
// worker must see one error long before they would give up waiting.
void lose_a_worker(const std::function<void(const Child&)>& harm, const std::string& expected) {
  const Key key = random_key();
  Child first(key, 1);
  Child second(key, 2);
  std::vector<ControlPeer> peers;
  peers.push_back({.device = 1,
                   .connection = connect_to(first.endpoint(), key, control_hello(1),
                                            within(milliseconds(60'000)))});
  peers.push_back({.device = 2,
                   .connection = connect_to(second.endpoint(), key, control_hello(2),
                                            within(milliseconds(60'000)))});
  std::atomic<int> told = 0;
  ControlOptions options;
  Cancellation cancellation;
  options.on_failure = [&](const std::string& reason) {
    cancellation.cancel(reason);
    ++told;
  };
  Control master(std::move(peers), options);
  std::this_thread::sleep_for(milliseconds(700));  // heartbeats keep it alive
  CHECK_FALSE(master.failed());
  const Clock::time_point start = Clock::now();
  harm(first);
  const std::string text = error_of([&] { static_cast<void>(master.receive(2, soon())); });
  CHECK(seconds_since(start) < kAtOnce);
  CAPTURE(text);
  CHECK(contains(text, "device 1"));
  CHECK(contains(text, expected));
  CHECK(second.wait(kAtOnce) == 0);
  while (told == 0 && seconds_since(start) < 2.0 * kAtOnce)
    std::this_thread::sleep_for(milliseconds(1));
  CHECK(told == 1);
  CHECK(contains(error_of([&] { cancellation.check(); }), expected));
  first.signal(SIGCONT);
  CHECK(first.wait(kAtOnce) != -1);
}

}  // namespace

// First, so that the forks come before this process has had threads.
TEST_CASE("transport/control: a killed worker is one error on every device within 2 s") {
  lose_a_worker([](const Child& child) { child.signal(SIGKILL); }, "closed the connection");
}

TEST_CASE("transport/control: a stopped worker is one error on every device within 2 s") {
  lose_a_worker([](const Child& child) { child.signal(SIGSTOP); }, "silent for");
}

TEST_CASE("transport/control: messages arrive in order and by device") {
  Home home(3);
  for (int i = 0; i < 50; ++i) {
    StepBegin step{.step = i};
    step.batch.segments = {{.sequence = 0, .past = i, .rows = 1}};
    home.master->send_all(step);
  }
  for (auto& worker : home.workers) {
    for (int i = 0; i < 50; ++i) {
      CHECK(worker->expect<StepBegin>(0, soon()).step == i);
    }
    worker->send(0, Ready{});
  }
  for (int device = 1; device <= 3; ++device)
    static_cast<void>(home.master->expect<Ready>(device, soon()));
  CHECK_FALSE(home.master->failed());
}

TEST_CASE("transport/control: the end is a Goodbye from both, reports may come before it") {
  Home home(2);
  home.master->send_all(Goodbye{});
  std::vector<std::future<void>> ending;
  for (auto& worker : home.workers) {
    ending.push_back(std::async(std::launch::async, [&] {
      static_cast<void>(worker->expect<Goodbye>(0, soon()));
      worker->send(0, Report{.bytes = "{}"});
      CHECK(worker->close(soon()).empty());
      worker.reset();
    }));
  }
  for (int device = 1; device <= 2; ++device) {
    CHECK(home.master->expect<Report>(device, soon()).bytes == "{}");
  }
  CHECK(home.master->close(soon()).empty());
  for (auto& end : ending) CHECK_NOTHROW(end.get());
  CHECK_FALSE(home.master->failed());
}

TEST_CASE("transport/control: a shard larger than every queue passes a slow reader") {
  Home home(1);
  constexpr int kChunks = 40;
  auto sending = std::async(std::launch::async, [&] {
    for (int i = 0; i < kChunks; ++i) {
      home.master->send(
          1, WeightChunk{std::vector<std::byte>(kMaxChunkBytes, static_cast<std::byte>(i))});
    }
    home.master->send(1, Ready{});
  });
  std::this_thread::sleep_for(milliseconds(2000));  // longer than the silence it may keep
  for (int i = 0; i < kChunks; ++i) {
    const WeightChunk chunk = home.workers[0]->expect<WeightChunk>(0, soon());
    CHECK(chunk.bytes.size() == kMaxChunkBytes);
    CHECK(chunk.bytes.back() == static_cast<std::byte>(i));
  }
  static_cast<void>(home.workers[0]->expect<Ready>(0, soon()));
  sending.get();
}

TEST_CASE("transport/control: what nobody takes fills a bounded queue, whatever it is made of") {
  // Not about silence: taking such a message apart takes long where the machine is busy.
  ControlOptions patient;
  patient.silence = milliseconds(60'000);
  patient.unread = milliseconds(60'000);
  Home home(1, patient);
  StepBegin step;
  step.batch.segments = {{.sequence = 0, .past = 0, .rows = kMaxTokens}};
  step.tokens.assign(kMaxTokens, 1);  // 4 MiB a message, and 8 MiB wait at either end
  constexpr int kSteps = 12;
  std::atomic<int> sent = 0;
  auto sending = std::async(std::launch::async, [&] {
    for (; sent < kSteps; ++sent) home.master->send(1, step);
  });
  int before = -1;
  while (before != sent) {
    before = sent;
    std::this_thread::sleep_for(milliseconds(500));
  }
  CHECK(sent < 10);
  for (int i = 0; i < kSteps; ++i) {
    CHECK(home.workers[0]->expect<StepBegin>(0, soon(60'000)).tokens.size() == kMaxTokens);
  }
  sending.get();
}

TEST_CASE("transport/control: one device's abort reaches all with its reason") {
  std::atomic<int> told = 0;
  ControlOptions options;
  options.on_failure = [&](const std::string& reason) {
    if (contains(reason, "no room for the shard")) ++told;
  };
  Home home(3, options);
  const Clock::time_point start = Clock::now();
  home.workers[1]->abort("no room for the shard");
  for (auto& worker : home.workers) {
    CHECK(contains(error_of([&] { static_cast<void>(worker->receive(0, soon())); }),
                   "no room for the shard"));
  }
  CHECK(contains(error_of([&] { static_cast<void>(home.master->receive(3, soon())); }),
                 "device 2 at"));
  CHECK(seconds_since(start) < kAtOnce);
  CHECK_THROWS_AS(home.master->send(1, Ready{}), Error);
  CHECK_THROWS_AS(static_cast<void>(home.master->close(soon())), Error);
  home.workers.clear();
  home.master.reset();
  CHECK(told == 4);
}

TEST_CASE("transport/control: a message that is not one fails everybody at once") {
  const Key key = random_key();
  Connected good = connect_pair(key, control_hello(1));
  Connected bad = connect_pair(key, control_hello(2));
  std::vector<ControlPeer> peers;
  peers.push_back({.device = 1, .connection = std::move(good.client)});
  peers.push_back({.device = 2, .connection = std::move(bad.client)});
  Control master(std::move(peers), {});
  const auto worker = control_of(0, std::move(good.server));
  const Clock::time_point start = Clock::now();
  bad.server.write_all(std::vector<std::byte>(64, std::byte{0xee}), within(milliseconds(60'000)));
  CHECK(contains(error_of([&] { static_cast<void>(worker->receive(0, soon())); }), "type 238"));
  CHECK(contains(error_of([&] { master.send(1, Ready{}); }), "device 2 at"));
  CHECK(seconds_since(start) < kAtOnce);
}

TEST_CASE("transport/control: silence is an error naming the device, an end without Goodbye too") {
  Connected pair = connect_pair(random_key());
  ControlOptions options;
  options.heartbeat = milliseconds(50);
  options.silence = milliseconds(250);
  const Clock::time_point start = Clock::now();
  const auto master = control_of(1, std::move(pair.client), options);
  const std::string text = error_of([&] { static_cast<void>(master->receive(1, soon())); });
  CHECK(contains(text, "device 1 at"));
  CHECK(contains(text, "silent for"));
  CHECK(seconds_since(start) < kAtOnce);

  Home home(1);
  home.workers.clear();
  CHECK(contains(error_of([&] { static_cast<void>(home.master->receive(1, soon())); }),
                 "closed the connection"));
}

TEST_CASE("transport/control: late is an error for the asker only, another message names both") {
  Home home(1);
  CHECK(contains(error_of([&] { static_cast<void>(home.master->receive(1, soon(50))); }),
                 "no message in time"));
  CHECK_FALSE(home.master->failed());
  home.workers[0]->send(0, Ready{});
  CHECK(contains(error_of([&] { static_cast<void>(home.master->expect<PlanAnswer>(1, soon())); }),
                 "sent Ready, expected PlanAnswer"));
  CHECK_THROWS_AS(home.master->send(9, Ready{}), std::logic_error);
}

TEST_CASE("transport/control: a peer that beats and never reads is an error in time") {
  Connected pair = connect_pair(random_key());
  ControlOptions options;
  options.heartbeat = milliseconds(50);
  options.unread = milliseconds(400);
  options.silence = milliseconds(60'000);  // what is to be seen is that it takes nothing
  const auto master = control_of(1, std::move(pair.client), options);
  std::atomic<bool> over = false;
  std::thread beating([&] {
    while (!over) {
      static_cast<void>(
          error_of([&] { pair.server.write_message(Heartbeat{}, within(milliseconds(100))); }));
      std::this_thread::sleep_for(milliseconds(50));
    }
  });
  const Clock::time_point start = Clock::now();
  const std::string text = error_of([&] {
    while (true) master->send(1, WeightChunk{std::vector<std::byte>(kMaxChunkBytes)});
  });
  over = true;
  beating.join();
  CAPTURE(text);
  CHECK(contains(text, "device 1 at"));
  CHECK(contains(text, "took nothing"));
  CHECK(seconds_since(start) < kAtOnce);
}

TEST_CASE("transport/control: a peer that has said Goodbye must still read what it is sent") {
  Connected pair = connect_pair(random_key());
  ControlOptions options;
  options.heartbeat = milliseconds(50);
  options.unread = milliseconds(400);
  options.silence = milliseconds(60'000);  // what is to be seen is that it takes nothing
  const auto master = control_of(1, std::move(pair.client), options);
  pair.server.write_message(Goodbye{}, within(milliseconds(60'000)));
  static_cast<void>(master->expect<Goodbye>(1, soon()));
  auto sending = std::async(std::launch::async, [&] {
    return error_of([&] {
      while (true) master->send(1, WeightChunk{std::vector<std::byte>(kMaxChunkBytes)});
    });
  });
  CHECK(sending.wait_for(milliseconds(60'000)) == std::future_status::ready);
  master->abort("the test is over");  // or it would wait for ever
  CHECK(contains(sending.get(), "took nothing"));
}

TEST_CASE("transport/control: a peer that says it is behind is waited for") {
  ControlOptions options;
  options.heartbeat = milliseconds(50);
  options.silence = milliseconds(1000);
  options.unread = milliseconds(1000);
  Home home(1, options);
  constexpr int kChunks = 24;
  auto sending = std::async(std::launch::async, [&] {
    for (int i = 0; i < kChunks; ++i) {
      home.master->send(1, WeightChunk{std::vector<std::byte>(kMaxChunkBytes)});
    }
  });
  std::this_thread::sleep_for(milliseconds(4000));  // four times what is allowed to others
  CHECK_FALSE(home.master->failed());
  for (int i = 0; i < kChunks; ++i) {
    static_cast<void>(home.workers[0]->expect<WeightChunk>(0, soon()));
  }
  CHECK_NOTHROW(sending.get());
}

TEST_CASE("transport/control: why a peer fails is told though it was sent more than it read") {
  for (int round = 0; round < 10; ++round) {
    CAPTURE(round);
    Home home(1);
    auto sending = std::async(std::launch::async, [&]() -> std::string {
      try {
        while (true)
          home.master->send(1, WeightChunk{.bytes = std::vector<std::byte>(std::size_t{1} << 20)});
      } catch (const Error& error) {
        return error.what();
      }
    });
    std::this_thread::sleep_for(milliseconds(100));  // until no more is taken
    home.workers[0]->abort("the disk is full");
    home.workers.clear();
    const std::string said = sending.get();
    CAPTURE(said);
    CHECK(contains(said, "the disk is full"));
  }
}

TEST_CASE("transport/control: who slices for a device is at work and does not wait for it") {
  CHECK(works_itself({.phase = Phase::slicing, .subject = 1}));
  CHECK_FALSE(works_itself({.phase = Phase::waiting, .subject = 1}));
  CHECK_FALSE(works_itself({.phase = Phase::computing, .subject = 1}));
}

TEST_CASE("transport/control: heartbeats tell what a device does, and whether it gets on") {
  Activity activity;
  Connected pair = connect_pair(random_key());
  ControlOptions options;
  options.heartbeat = milliseconds(20);
  options.activity = &activity;
  const auto worker = control_of(0, std::move(pair.server), options);
  const auto master = control_of(1, std::move(pair.client), options);
  const auto saw = [&](const std::string& what) {
    const Clock::time_point start = Clock::now();
    while (seconds_since(start) < kAtOnce) {
      const Heartbeat said = master->state_of(1).activity;
      if (describe(said, [](int d) { return "device " + std::to_string(d); }) == what) return true;
      std::this_thread::sleep_for(milliseconds(5));
    }
    return false;
  };
  activity.enter(Phase::receiving, Activity::kNobody, 200);
  activity.advance(50);
  CHECK(saw("receives its weights, 25%"));
  const Clock::time_point moved = master->state_of(1).moved;
  std::this_thread::sleep_for(milliseconds(100));
  CHECK(master->state_of(1).moved == moved);
  activity.advance(100);
  CHECK(saw("receives its weights, 50%"));
  CHECK(master->state_of(1).moved > moved);
  activity.enter(Phase::computing, 3, 10);
  CHECK(saw("computes, task 0 of 10, and waits for device 3"));
}

TEST_CASE("transport/control: a peer that joins late is kept alive as the others are") {
  ControlOptions options;
  options.heartbeat = milliseconds(50);
  options.silence = milliseconds(1000);
  Home home(1, options);
  std::this_thread::sleep_for(milliseconds(1500));
  Connected pair = connect_pair(home.key, control_hello(2));
  home.workers.push_back(control_of(0, std::move(pair.server), options));
  home.master->add({.device = 2, .connection = std::move(pair.client)});
  std::this_thread::sleep_for(milliseconds(1500));
  for (int device = 1; device <= 2; ++device) {
    home.workers[static_cast<std::size_t>(device - 1)]->send(0, Ready{});
    static_cast<void>(home.master->expect<Ready>(device, soon()));
  }
}

TEST_CASE("transport/control: once the work is done a peer is lost alone") {
  Home home(3);
  home.master->say_goodbye();
  home.workers[0].reset();  // gone without a Goodbye
  const std::string text = error_of([&] { static_cast<void>(home.master->receive(1, soon())); });
  CHECK(contains(text, "device 1 at"));
  home.workers[1]->send(0, Report{.bytes = "{}"});
  CHECK(home.master->expect<Report>(2, soon()).bytes == "{}");
  auto ending = std::async(std::launch::async, [&] {
    static_cast<void>(home.workers[1]->expect<Goodbye>(0, soon()));
    static_cast<void>(home.workers[1]->close(soon()));
  });
  const std::vector<std::string> faults = home.master->close(soon(3000));  // 3 says nothing
  ending.get();
  REQUIRE(faults.size() == 2);
  CHECK(faults[0] == text);
  CHECK(contains(faults[1], "device 3 at"));
  CHECK(contains(faults[1], "did not end the run in time"));
}

TEST_CASE("transport/control: over a slow way the first byte may take longer than silence") {
  Connected pair = connect_pair(random_key());
  ControlOptions options;
  options.heartbeat = milliseconds(50);
  options.silence = milliseconds(500);
  options.first = milliseconds(30'000);
  const auto worker = control_of(0, std::move(pair.server), options);
  std::this_thread::sleep_for(milliseconds(1500));
  CHECK_FALSE(worker->failed());
  pair.client.write_message(Heartbeat{}, within(milliseconds(60'000)));
  const Clock::time_point start = Clock::now();
  CHECK(contains(error_of([&] { static_cast<void>(worker->receive(0, soon())); }), "silent for"));
  CHECK(seconds_since(start) < kAtOnce);
}

}  // namespace tandem::exec::control_test
