#include "study/steady_state/cycle_mean.hpp"

#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/howard_cycle_ratio.hpp>

namespace tandem::study {
namespace {

using Graph = boost::adjacency_list<
    boost::vecS, boost::vecS, boost::directedS, boost::no_property,
    boost::property<boost::edge_weight_t, double, boost::property<boost::edge_weight2_t, double>>>;

// Nodes: the arrival of each block, and on each device its start and the end of its load.
class Precedence {
 public:
  explicit Precedence(const MemorySchedule& schedule) : schedule_(schedule) {
    for (std::size_t b = 0; b < schedule.blocks(); ++b) {
      for (std::size_t d = 0; d < schedule.devices.size(); ++d) {
        after(arrival((b + blocks() - 1) % blocks()), start(d, b), 0, b == 0 ? 1 : 0);
        after(start(d, b), arrival(b), compute(d, b) + schedule.reduce[b], 0);
      }
    }
    for (std::size_t d = 0; d < schedule.devices.size(); ++d) add_loader(d);
  }
  [[nodiscard]] const Graph& graph() const { return graph_; }

 private:
  [[nodiscard]] std::size_t blocks() const { return schedule_.blocks(); }
  [[nodiscard]] static std::size_t arrival(std::size_t b) { return b; }
  [[nodiscard]] std::size_t start(std::size_t d, std::size_t b) const {
    return blocks() * (2 * d + 1) + b;
  }
  [[nodiscard]] std::size_t loaded(std::size_t d, std::size_t b) const {
    return blocks() * (2 * d + 2) + b;
  }
  [[nodiscard]] Ticks compute(std::size_t d, std::size_t b) const {
    return schedule_.devices[d].blocks[b].compute;
  }

  // `later` of the token `tokens` after is at least `time` after `earlier`.
  void after(std::size_t earlier, std::size_t later, Ticks time, std::int64_t tokens) {
    boost::add_edge(earlier, later, {static_cast<double>(time), static_cast<double>(tokens)},
                    graph_);
  }

  void add_loader(std::size_t d) {
    const StreamingDevice& device = schedule_.devices[d];
    std::vector<std::size_t> streamed;
    for (std::size_t b = 0; b < blocks(); ++b)
      if (device.blocks[b].residence == Residence::streamed) streamed.push_back(b);
    const auto count = static_cast<std::int64_t>(streamed.size());
    for (std::int64_t j = 0; j < count; ++j) {
      const std::size_t b = streamed[static_cast<std::size_t>(j)];
      const Ticks load = device.blocks[b].load;
      after(loaded(d, b), start(d, b), 0, 0);
      after(loaded(d, streamed[static_cast<std::size_t>((j + count - 1) % count)]), loaded(d, b),
            load, j == 0 ? 1 : 0);
      if (device.window == kUnlimited) continue;
      const std::int64_t back = (device.window - j + count - 1) / count;  // tokens, rounded up
      const std::int64_t tokens = device.window > j ? back : 0;
      const std::size_t freed =
          streamed[static_cast<std::size_t>(j - device.window + tokens * count)];
      if (device.release == model::ReleaseRule::early) {
        after(start(d, freed), loaded(d, b), compute(d, freed) + load, tokens);
      } else {
        after(arrival(freed), loaded(d, b), load, tokens);
      }
    }
  }

  const MemorySchedule& schedule_;
  Graph graph_;
};

}  // namespace

double largest_cycle_mean(const MemorySchedule& schedule) {
  validate(schedule);
  const Precedence precedence(schedule);
  const Graph& graph = precedence.graph();
  return boost::maximum_cycle_ratio(graph, boost::get(boost::vertex_index, graph),
                                    boost::get(boost::edge_weight, graph),
                                    boost::get(boost::edge_weight2, graph));
}

}  // namespace tandem::study
