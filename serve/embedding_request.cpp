#include "serve/embedding_request.hpp"

#include <openssl/evp.h>

#include <array>
#include <bit>
#include <charconv>
#include <cstddef>
#include <limits>
#include <nlohmann/json.hpp>

#include "serve/request_parameters.hpp"

namespace tandem::serve {
namespace {

constexpr std::size_t kMostInputs = 2048;  // as OpenAI's
constexpr const char* kInputs =
    "a text, a list of texts, the token ids of a text, or a list of such lists";

std::vector<std::int32_t> ids_of(const std::string& where, const Given& list) {
  std::vector<std::int32_t> ids;
  ids.reserve(list.size());
  for (const Given& id : list) ids.push_back(token_id_of(where, id, kInputs));
  return ids;
}

EmbeddingRequest::Input input_of(const std::string& where, const Given& input) {
  if (!input.is_string() && !input.is_array())
    refuse(where, shown(input) + ", expected " + std::string(kInputs));
  if (input.empty() || input == "") refuse(where, shown(input) + " is empty, expected some text");
  if (input.is_string()) return input.get<std::string>();
  return ids_of(where, input);
}

void read_inputs(const Given& input, EmbeddingRequest& request) {
  request.is_list = input.is_array() && !input.empty() && !input[0].is_number();
  if (!request.is_list) {
    request.inputs.push_back(input_of("input", input));
    return;
  }
  if (input.size() > kMostInputs)
    refuse("input", "a list of " + std::to_string(input.size()) + ", expected at most " +
                        std::to_string(kMostInputs));
  request.inputs.reserve(input.size());
  for (const Given& one : input)
    request.inputs.push_back(input_of("input[" + std::to_string(request.inputs.size()) + "]", one));
}

std::string base64_of(std::span<const float> vector) {
  static_assert(std::endian::native == std::endian::little);
  const auto bytes = std::as_bytes(vector);
  std::string text(4 * ((bytes.size() + 2) / 3) + 1, '\0');  // with a zero behind it
  const int length = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                                     reinterpret_cast<const unsigned char*>(bytes.data()),
                                     static_cast<int>(bytes.size()));
  text.resize(static_cast<std::size_t>(length));
  return text;
}

// The shortest numbers that are read as the same ones again.
std::string numbers_of(std::span<const float> vector) {
  constexpr std::size_t kMostCharacters = 24;
  std::string text = "[";
  for (const float x : vector) {
    std::array<char, kMostCharacters> digits{};
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), x);
    if (text.size() > 1) text += ',';
    text.append(digits.data(), end.ptr);
  }
  return text + "]";
}

}  // namespace

EmbeddingRequest parse_embedding_request(std::string_view body) {
  Parameters parameters(body);
  EmbeddingRequest request;
  read_inputs(parameters.at("input"), request);
  if (const Given* const model = parameters.find("model"))
    request.model = Parameters::text("model", *model);
  if (const Given* const format = parameters.find("encoding_format")) {
    if (*format != "float" && *format != "base64")
      refuse("encoding_format", shown(*format) + ", expected float or base64");
    if (*format == "base64") request.encoding = VectorEncoding::base64;
  }
  request.dimensions =
      parameters.integer("dimensions", 1, std::numeric_limits<std::int32_t>::max());
  // A name of the user for the server's records, of which there are none.
  if (const Given* const user = parameters.find("user"))
    static_cast<void>(Parameters::text("user", *user));
  parameters.settle();
  return request;
}

std::string embedding_json(std::size_t index, std::span<const float> vector,
                           VectorEncoding encoding) {
  return R"({"object":"embedding","index":)" + std::to_string(index) + R"(,"embedding":)" +
         (encoding == VectorEncoding::base64 ? '"' + base64_of(vector) + '"' : numbers_of(vector)) +
         "}";
}

std::string embeddings_json(const std::string& model, std::span<const std::string> data,
                            std::int64_t tokens) {
  std::string text = R"({"object":"list","data":[)";
  for (const std::string& one : data) {
    if (&one != data.data()) text += ',';
    text += one;
  }
  const Ordered usage{{"prompt_tokens", tokens}, {"total_tokens", tokens}};
  return text + R"(],"model":)" +
         Ordered(model).dump(-1, ' ', false, Ordered::error_handler_t::replace) + R"(,"usage":)" +
         usage.dump() + "}";
}

}  // namespace tandem::serve
