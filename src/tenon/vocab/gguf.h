#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tenon/base/expected.h"

namespace tenon::vocab {

/// The header of a GGUF file, read without trusting it: every count, length and offset is checked
/// against the bytes of the file before it is used, no number from the file decides how much is
/// allocated, and weights are not read.
///
///     auto file = GgufFile::open("model.gguf");
///     if (!file) return Unexpected(file.error());
///     file->string("general.architecture");                  // optional<string_view>
///     for (std::string_view token : file->strings("tokenizer.ggml.tokens")) ...
///
/// Versions 2 and 3, little-endian. Views are valid as long as the object lives. Immutable after
/// parsing, hence thread-safe; movable.
/// Source: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
class GgufFile {
 public:
  /// Numbers of the format's value types.
  enum class Type : std::uint32_t {
    uint8,
    int8,
    uint16,
    int16,
    uint32,
    int32,
    float32,
    boolean,
    string,
    array,
    uint64,
    int64,
    float64
  };

  /// Bounds on what a file can make us keep. The largest model known has 3000 keys and tensors.
  static constexpr std::uint64_t kMaxKeys = 1 << 16;
  static constexpr std::uint64_t kMaxTensors = 1 << 18;

  struct Tensor {
    std::string_view name;
    std::vector<std::uint64_t> shape;
    std::uint32_t type = 0;    ///< The number of the type in ggml.
    std::uint64_t offset = 0;  ///< The offset in the data section.
  };

  /// Maps the file for reading. Errors: `unavailable` (not found, not readable), and those of
  /// parse().
  [[nodiscard]] static Expected<GgufFile> open(const std::string& path);

  /// Reads a whole file in memory; `file` must outlive the result. Errors: `invalid`, with the
  /// fault and its byte; `unsupported` for another version or a big-endian file; `limit_exceeded`
  /// above the bounds.
  [[nodiscard]] static Expected<GgufFile> parse(std::string_view file);

  [[nodiscard]] std::uint32_t version() const { return version_; }
  [[nodiscard]] std::size_t key_count() const { return values_.size(); }
  [[nodiscard]] const std::vector<Tensor>& tensors() const { return tensors_; }
  [[nodiscard]] bool has(std::string_view key) const { return values_.contains(key); }

  /// The value of `key`, if the file has it and it is of this type.
  [[nodiscard]] std::optional<std::string_view> string(std::string_view key) const;
  [[nodiscard]] std::optional<std::int64_t> integer(std::string_view key) const;  ///< Any width.
  [[nodiscard]] std::optional<double> number(std::string_view key) const;  ///< Integer or float.
  [[nodiscard]] std::optional<bool> boolean(std::string_view key) const;
  /// The elements of an array of strings, of integers or booleans, or of any numbers. Empty if
  /// there is no such array.
  [[nodiscard]] std::vector<std::string_view> strings(std::string_view key) const;
  [[nodiscard]] std::vector<std::int64_t> integers(std::string_view key) const;
  [[nodiscard]] std::vector<double> numbers(std::string_view key) const;

 private:
  struct Value {
    Type type = Type::uint8;  // of the value, or of an array's elements
    bool is_array = false;
    std::uint64_t count = 1;  // elements
    std::string_view bytes;   // of all elements
  };
  class Reader;
  struct Mapping;

  GgufFile() = default;

  const Value* find(std::string_view key, bool is_array) const;
  template <class T>
  std::vector<T> elements(std::string_view key,
                          std::optional<T> (*read)(Type, std::string_view)) const;

  std::shared_ptr<const Mapping> mapping_;  // null for parse()
  std::uint32_t version_ = 0;
  std::unordered_map<std::string_view, Value> values_;
  std::vector<Tensor> tensors_;
};

/// The bytes of a tensor of ggml's type `type` with `elements` elements, `row` of which form a row;
/// nullopt for a type that this version does not know, for part of a block, or beyond 2^63.
[[nodiscard]] std::optional<std::uint64_t> ggml_tensor_bytes(std::uint32_t type,
                                                             std::uint64_t elements,
                                                             std::uint64_t row);

}  // namespace tenon::vocab
