#pragma once

#include <filesystem>
#include <iosfwd>

#include "advice/fidelity/matrix.hpp"
#include "cli/fidelity/subcommands.hpp"

namespace tandem::cli {

// Predicts the plans of the recordings in `folder` (or in its folder recordings/) again and prints
// what is not as recorded, with the deviations before and now. `update`: writes the new predictions
// into the recordings; their measurements stay. Returns 0 if all predictions are those recorded to
// 1e-9 or were updated, else 3. Throws Error if there are no recordings, Interrupted.
int replay_recordings(const std::filesystem::path& folder, study::Half half, bool update,
                      Subcommands& commands, std::ostream& out);

}  // namespace tandem::cli
