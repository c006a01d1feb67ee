#include "sim/network/simgrid_flows.hpp"

#include <simgrid/kernel/Timer.hpp>
#include <simgrid/s4u/Activity.hpp>
#include <utility>

#include "sim/network/engine.hpp"

namespace tandem::sim {

namespace s4u = simgrid::s4u;
using simgrid::kernel::timer::Timer;

SimGridFlows::SimGridFlows(const model::Cluster& cluster,
                           std::optional<std::vector<model::Channel>> channels)
    : engine_(&make_engine()), network_(*engine_, cluster, std::move(channels)) {}

void SimGridFlows::on_sent(std::function<void(ChannelNumber)> sent) {
  s4u::Activity::on_completion_cb([sent = std::move(sent)](const s4u::Activity& comm) {
    // Background flows have no sender.
    if (const auto* const sender = comm.get_data<Sender>()) sent(sender->number);
  });
  network_.start_others();
}

double SimGridFlows::now() const { return s4u::Engine::get_clock(); }

void SimGridFlows::at(double time, std::function<void()> what) {
  Timer::set(time, std::move(what));
}

Flows::ChannelNumber SimGridFlows::add_channel(model::DeviceIndex from, model::DeviceIndex to) {
  network_.add_route(from, to);
  const auto number = static_cast<ChannelNumber>(senders_.size());
  senders_.push_back({.from = from, .to = to, .number = number, .comm = {}});
  return number;
}

void SimGridFlows::send(ChannelNumber channel, double bytes) {
  Sender& sender = senders_[static_cast<std::size_t>(channel)];
  sender.comm = network_.message(sender.from, sender.to, bytes);
  sender.comm->set_data(&sender);
  sender.comm->start();
}

void SimGridFlows::run() { engine_->run(); }

}  // namespace tandem::sim
