#pragma once

// How the embeddings of a served encoder are made.

#include "cli/flags/options.hpp"
#include "cli/flags/service_flags.hpp"
#include "exec/serve/text_desk.hpp"

namespace tandem::cli {

inline constexpr Flag kPoolingFlag{
    .name = "pooling",
    .value = "MODE",
    .help =
        "of an encoder, how a text's embedding comes of its tokens: mean, cls (the first one) or "
        "max; 1_Pooling/config.json beside the weights decides, if it is there [mean]"};

// Returns the limits of a desk for `job`, an encoder's, as sentence-transformers' files beside the
// weights and the flag say. Throws Usage if they contradict each other.
[[nodiscard]] exec::TextDeskLimits text_desk_limits(const Options& options, const ServiceJob& job);

}  // namespace tandem::cli
