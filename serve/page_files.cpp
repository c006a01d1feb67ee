#include "serve/page_files.hpp"

#include <algorithm>
#include <array>

namespace tandem::serve {
namespace {

constexpr std::string_view kHtml =
#include "page/index.html.inc"
    ;
constexpr std::string_view kStyle =
#include "page/page.css.inc"
    ;
constexpr std::string_view kIcon =
#include "page/icon.svg.inc"
    ;
constexpr std::string_view kChatScript =
#include "page/chat.js.inc"
    ;
constexpr std::string_view kClusterScript =
#include "page/cluster.js.inc"
    ;
constexpr std::string_view kPlannerScript =
#include "page/planner.js.inc"
    ;
constexpr std::string_view kTopologyScript =
#include "page/topology.js.inc"
    ;
constexpr std::string_view kTableScript =
#include "page/table.js.inc"
    ;
constexpr std::string_view kServerScript =
#include "page/server.js.inc"
    ;

constexpr std::string_view kScript = "text/javascript; charset=utf-8";
constexpr std::array kFiles{
    PageFile{"/", "text/html; charset=utf-8", kHtml},
    PageFile{"/page.css", "text/css; charset=utf-8", kStyle},
    PageFile{"/icon.svg", "image/svg+xml", kIcon},
    PageFile{"/chat.js", kScript, kChatScript},
    PageFile{"/cluster.js", kScript, kClusterScript},
    PageFile{"/planner.js", kScript, kPlannerScript},
    PageFile{"/topology.js", kScript, kTopologyScript},
    PageFile{"/table.js", kScript, kTableScript},
    PageFile{"/server.js", kScript, kServerScript},
};

}  // namespace

const PageFile* find_page_file(std::string_view path) {
  const auto* const found = std::ranges::find(kFiles, path, &PageFile::path);
  return found == kFiles.end() ? nullptr : found;
}

}  // namespace tandem::serve
