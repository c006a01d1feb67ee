#include "exec/kernels/instruction_sets.hpp"

// TANDEM_INSTRUCTIONS limits the kernels of these tests as it limits the program's: sums in another
// processor's order must pass, too.
namespace tandem::exec::chosen_instructions {

[[maybe_unused]] const bool kChosen = [] {
  choose_instruction_sets();
  return true;
}();

}  // namespace tandem::exec::chosen_instructions
