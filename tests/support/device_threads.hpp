#pragma once

// Every device on a thread of this process.

#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "exec/runtime/runtime.hpp"
#include "tests/support/memory_transport.hpp"

namespace tandem::testing {

// Runs `body(device)` for each of `devices` devices at once. Returns what each threw, by device;
// empty if nothing. One that fails ends the waits of all others on `network`, if there is one.
template <class Body>
std::vector<std::string> on_each_device(std::size_t devices, const Body& body,
                                        MemoryNetwork* network = nullptr) {
  std::vector<std::string> errors(devices);
  std::vector<std::thread> threads;
  for (std::size_t d = 0; d < devices; ++d) {
    threads.emplace_back([&, d] {
      try {
        body(static_cast<model::DeviceIndex>(d));
      } catch (const std::exception& error) {
        errors[d] = error.what();
        if (network != nullptr) network->fail(error.what());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

// Executes `graph` `steps` times by runtimes over the transport of each device. Returns as
// on_each_device, with an error too where a time was not recorded.
inline std::vector<std::string> execute_on_threads(
    const model::TaskGraph& graph, std::vector<exec::Compute>& devices,
    const std::function<exec::Transport&(model::DeviceIndex)>& transport_of, int steps) {
  return on_each_device(devices.size(), [&](model::DeviceIndex self) {
    exec::Pacer pacer({});
    exec::Runtime runtime(devices[static_cast<std::size_t>(self)], &transport_of(self), nullptr,
                          pacer, {.device = self});
    runtime.prepare(graph);
    exec::TimeLog log;
    for (int step = 0; step < steps; ++step) runtime.step(step, graph, nullptr, {}, log);
    require(log.size() == static_cast<std::size_t>(steps) * runtime.records(graph),
            "records are missing");
  });
}

// The same over channels in memory.
inline std::vector<std::string> execute_on_threads(const model::TaskGraph& graph,
                                                   std::vector<exec::Compute>& devices,
                                                   const MemoryOptions& options, int steps) {
  MemoryNetwork network(options);
  std::vector<std::unique_ptr<MemoryTransport>> transports;
  for (std::size_t d = 0; d < devices.size(); ++d) {
    transports.push_back(
        std::make_unique<MemoryTransport>(network, static_cast<model::DeviceIndex>(d)));
  }
  return execute_on_threads(
      graph, devices,
      [&](model::DeviceIndex self) -> exec::Transport& {
        return *transports[static_cast<std::size_t>(self)];
      },
      steps);
}

}  // namespace tandem::testing
