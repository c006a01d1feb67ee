// Requests and answers of /v1/embeddings.

#include "serve/embedding_request.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tandem::test::embedding_request_test {
namespace {

using nlohmann::json;
using serve::ApiError;
using serve::EmbeddingRequest;
using serve::parse_embedding_request;
using serve::VectorEncoding;

EmbeddingRequest request_with(const std::string& fields) {
  return parse_embedding_request("{" + fields + "}");
}

TEST_CASE("serve/embeddings: inputs are a text, texts, token ids, or lists of them") {
  using Ids = std::vector<std::int32_t>;
  CHECK(request_with(R"("input": "a b")").inputs == std::vector<EmbeddingRequest::Input>{"a b"});
  CHECK(request_with(R"("input": ["a", "b"])").inputs ==
        std::vector<EmbeddingRequest::Input>{"a", "b"});
  CHECK(request_with(R"("input": [1, 2])").inputs ==
        std::vector<EmbeddingRequest::Input>{Ids{1, 2}});
  CHECK(request_with(R"("input": [[1, 2], [3]])").inputs ==
        std::vector<EmbeddingRequest::Input>{Ids{1, 2}, Ids{3}});
  CHECK(request_with(R"("input": ["a", [3]])").inputs ==
        std::vector<EmbeddingRequest::Input>{"a", Ids{3}});
  const EmbeddingRequest all = request_with(
      R"("input": "a", "model": "m", "encoding_format": "base64", "dimensions": 8, "user": "u")");
  CHECK(all.model == "m");
  CHECK(all.encoding == VectorEncoding::base64);
  CHECK(all.dimensions == 8);
  CHECK(request_with(R"("input": "a", "encoding_format": "float")").encoding ==
        VectorEncoding::numbers);
  CHECK_FALSE(request_with(R"("input": "a", "dimensions": null)").dimensions);
}

TEST_CASE("serve/embeddings: what is wrong is refused by its name") {
  std::string many = R"("input": [)";
  for (int i = 0; i < 2049; ++i) many += i == 0 ? R"("a")" : R"(, "a")";
  for (const auto& [fields, param] : std::vector<std::pair<std::string, std::string>>{
           {"", "input"},
           {R"("input": null)", "input"},
           {R"("input": "")", "input"},
           {R"("input": [])", "input"},
           {R"("input": 5)", "input"},
           {R"("input": {"a": 1})", "input"},
           {R"("input": ["a", ""])", "input[1]"},
           {R"("input": ["a", []])", "input[1]"},
           {R"("input": ["a", 5])", "input[1]"},
           {R"("input": [5, "a"])", "input"},
           {R"("input": [-1])", "input"},
           {R"("input": [1.5])", "input"},
           {R"("input": [4294967296])", "input"},
           {R"("input": [["a"]])", "input[0]"},
           {R"("input": [[[1]]])", "input[0]"},
           {many + "]", "input"},
           {R"("input": "a", "encoding_format": "int8")", "encoding_format"},
           {R"("input": "a", "dimensions": 0)", "dimensions"},
           {R"("input": "a", "dimensions": "8")", "dimensions"},
           {R"("input": "a", "model": 5)", "model"},
           {R"("input": "a", "user": 5)", "user"},
           {R"("input": "a", "truncate": true)", "truncate"}}) {
    CAPTURE(fields);
    try {
      static_cast<void>(request_with(fields));
      FAIL_CHECK("accepted");
    } catch (const ApiError& error) {
      CHECK(error.status == 400);
      CHECK(error.param == param);
    }
  }
}

TEST_CASE("serve/embeddings: numbers are read as they were, also from base64") {
  const std::vector<float> vector{0.1F, -0.0F, 1.0F / 3.0F, 1e-38F, -3.4e38F, 5e-45F, 1.0F};
  const json numbers = json::parse(serve::embedding_json(3, vector, VectorEncoding::numbers));
  CHECK(numbers["object"] == "embedding");
  CHECK(numbers["index"] == 3);
  REQUIRE(numbers["embedding"].size() == vector.size());
  for (std::size_t i = 0; i < vector.size(); ++i)
    CHECK(numbers["embedding"][i].get<float>() == vector[i]);
  // 1.0F is 00 00 80 3f.
  const std::vector<float> one{1.0F};
  CHECK(json::parse(serve::embedding_json(0, one, VectorEncoding::base64))["embedding"] ==
        "AACAPw==");
  const std::vector<float> three{1.0F, 1.0F, 1.0F};
  CHECK(json::parse(serve::embedding_json(0, three, VectorEncoding::base64))["embedding"] ==
        "AACAPwAAgD8AAIA/");
  const std::vector<std::string> data{serve::embedding_json(0, one, VectorEncoding::numbers),
                                      serve::embedding_json(1, one, VectorEncoding::numbers)};
  const json answer = json::parse(serve::embeddings_json("a\"b", data, 12));
  CHECK(answer["object"] == "list");
  CHECK(answer["data"].size() == 2);
  CHECK(answer["model"] == "a\"b");
  CHECK(answer["usage"] == json{{"prompt_tokens", 12}, {"total_tokens", 12}});
}

}  // namespace
}  // namespace tandem::test::embedding_request_test
