// Pooling, and sentence-transformers' files that state it.

#include "exec/serve/pooling.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/exec/weights/weights_support.hpp"

namespace tandem::exec::pooling_test {
namespace {

using testing::TemporaryFolder;
using testing::write_text;

TEST_CASE("exec/pooling: mean, first and largest of [[1, -2], [3, 4], [-1, 10]]") {
  const std::vector<float> states{1, -2, 3, 4, -1, 10};
  CHECK(find_pooling("mean")->pool(states, 2) == std::vector<float>{1, 4});
  CHECK(find_pooling("cls")->pool(states, 2) == std::vector<float>{1, -2});
  CHECK(find_pooling("max")->pool(states, 2) == std::vector<float>{3, 10});
  CHECK(find_pooling("min") == nullptr);
  CHECK(unit_vector({3, 4}) == std::vector<float>{0.6F, 0.8F});
  CHECK(unit_vector({0, 0}) == std::vector<float>{0, 0});
}

TEST_CASE("exec/pooling: the files beside the weights decide") {
  const TemporaryFolder folder;
  CHECK(read_sentence_settings(folder.path()).pooling == nullptr);
  write_text(
      folder.path() / "modules.json",
      R"([{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
                 {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
                 {"idx": 2, "name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"}])");
  write_text(folder.path() / "1_Pooling" / "config.json",
             R"({"word_embedding_dimension": 384, "pooling_mode_cls_token": true,
                 "pooling_mode_mean_tokens": false, "pooling_mode_max_tokens": false,
                 "pooling_mode_mean_sqrt_len_tokens": false, "include_prompt": true})");
  write_text(folder.path() / "sentence_bert_config.json",
             R"({"max_seq_length": 256, "do_lower_case": false})");
  const SentenceSettings settings = read_sentence_settings(folder.path());
  REQUIRE(settings.pooling != nullptr);
  CHECK(settings.pooling->name == "cls");
  CHECK(settings.most_tokens == 256);
}

TEST_CASE("exec/pooling: what would change the vectors is refused by name") {
  const auto error_with = [](const std::string& file, const std::string& text) {
    const TemporaryFolder folder;
    write_text(folder.path() / file, text);
    return testing::error_of([&] { static_cast<void>(read_sentence_settings(folder.path())); });
  };
  const std::string pooling = "1_Pooling/config.json";
  CHECK(error_with(pooling, R"({"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": true})")
            .find("no other mode") != std::string::npos);
  CHECK(error_with(pooling, R"({"pooling_mode_lasttoken": true})").find("pooling_mode_lasttoken") !=
        std::string::npos);
  CHECK(error_with(pooling, R"({"word_embedding_dimension": 384})").find("no mode of pooling") !=
        std::string::npos);
  CHECK(error_with(pooling, R"({"pooling_mode_cls_token": 1})").find("pooling_mode_cls_token") !=
        std::string::npos);
  CHECK(error_with("modules.json", R"([{"type": "sentence_transformers.models.Dense"}])")
            .find("expected a module of type Transformer, Pooling or Normalize") !=
        std::string::npos);
  CHECK(
      error_with("sentence_bert_config.json", R"({"do_lower_case": true})").find("do_lower_case") !=
      std::string::npos);
}

}  // namespace
}  // namespace tandem::exec::pooling_test
