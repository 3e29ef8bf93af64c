#include "tenon/vocab/gguf.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace tenon::vocab {
namespace {
// Reads the header of a GGUF file, which is mapped and never copied: magic and version, then keys
// with their values, then the descriptions of the tensors. Reader walks over it once. A value is
// kept as a view of its bytes with its type, and is decoded only when it is asked for.
//
// The file is not trusted. Every read first compares its length with the bytes that are left,
// counts are never used to allocate memory before the bytes for them have been seen, and sums are
// checked for overflow. After the first failure all reads return nothing, so the code has no branch
// for errors at every read. At the end every tensor must lie inside the data section, so that
// libllama cannot be led outside of the file.

constexpr std::string_view kMagic = "GGUF";
constexpr std::uint64_t kMaxDimensions = 4;
constexpr std::uint64_t kDefaultAlignment = 32;

struct GgmlType {
  std::uint32_t number;  // in files
  std::uint32_t block;   // elements in a block
  std::uint32_t bytes;   // of a block
};

// The type numbers of ggml.h. Tests of engine/llama compare them with ggml itself.
// The columns are those of GgmlType: {2, 32, 18} is q4_0.
constexpr GgmlType kGgmlTypes[] = {
    {0, 1, 4},      {1, 1, 2},      {2, 32, 18},   {3, 32, 20},    {6, 32, 22},    {7, 32, 24},
    {8, 32, 34},    {9, 32, 36},    {10, 256, 84}, {11, 256, 110}, {12, 256, 144}, {13, 256, 176},
    {14, 256, 210}, {15, 256, 292}, {16, 256, 66}, {17, 256, 74},  {18, 256, 98},  {19, 256, 50},
    {20, 32, 18},   {21, 256, 110}, {22, 256, 82}, {23, 256, 136}, {24, 1, 1},     {25, 1, 2},
    {26, 1, 4},     {27, 1, 8},     {28, 1, 8},    {29, 256, 56},  {30, 1, 2},     {34, 256, 54},
    {35, 256, 66},  {39, 32, 17},
};

std::size_t width_of(GgufFile::Type type) {
  using Type = GgufFile::Type;
  switch (type) {
    case Type::uint8:
    case Type::int8:
    case Type::boolean:
      return 1;
    case Type::uint16:
    case Type::int16:
      return 2;
    case Type::uint32:
    case Type::int32:
    case Type::float32:
      return 4;
    case Type::uint64:
    case Type::int64:
    case Type::float64:
      return 8;
    // They have no width of their own.
    case Type::string:
    case Type::array:
      return 0;
  }
  return 0;
}

// The file's numbers need not be aligned. Little-endian, as the machines that we build for are.
template <class T>
T read_as(std::string_view bytes) {
  T value{};
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

/// An integer or boolean of `type`; nullopt for other types and beyond int64.
std::optional<std::int64_t> integer_of(GgufFile::Type type, std::string_view bytes) {
  using Type = GgufFile::Type;
  switch (type) {
    case Type::uint8:
    case Type::boolean:
      return read_as<std::uint8_t>(bytes);
    case Type::int8:
      return read_as<std::int8_t>(bytes);
    case Type::uint16:
      return read_as<std::uint16_t>(bytes);
    case Type::int16:
      return read_as<std::int16_t>(bytes);
    case Type::uint32:
      return read_as<std::uint32_t>(bytes);
    case Type::int32:
      return read_as<std::int32_t>(bytes);
    case Type::int64:
      return read_as<std::int64_t>(bytes);
    case Type::uint64: {
      const auto value = read_as<std::uint64_t>(bytes);
      if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) break;
      return static_cast<std::int64_t>(value);
    }
    default:
      break;
  }
  return std::nullopt;
}

/// The same for floats as well.
std::optional<double> number_of(GgufFile::Type type, std::string_view bytes) {
  if (type == GgufFile::Type::float32) return static_cast<double>(read_as<float>(bytes));
  if (type == GgufFile::Type::float64) return read_as<double>(bytes);
  const auto whole = integer_of(type, bytes);
  return whole ? std::optional(static_cast<double>(*whole)) : std::nullopt;
}

}  // namespace

/// A file's bytes. They are mapped as long as this object lives.
struct GgufFile::Mapping {
  void* address = nullptr;
  std::size_t size = 0;

  Mapping() = default;
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() {
    if (address != nullptr) ::munmap(address, size);
  }
};

/// Reads the header. After the first failure every read returns nothing, and error() says why.
class GgufFile::Reader {
 public:
  explicit Reader(std::string_view file) : file_(file) {}

  Status read(GgufFile& out) {
    read_header(out);
    for (std::uint64_t i = 0; i < keys_ && !error_; ++i) read_key(out);
    for (std::uint64_t i = 0; i < tensors_ && !error_; ++i) read_tensor(out);
    if (!error_) check_data(out);
    if (error_) return Unexpected(*error_);
    return {};
  }

 private:
  // The first error counts: later ones are its consequences.
  void fail(Errc code, std::string message) {
    if (!error_) error_ = Error{code, std::move(message)};
  }
  void fail_here(const std::string& what) {
    fail(Errc::invalid, what + " (at byte " + std::to_string(at_) + ")");
  }

  std::string_view bytes(std::uint64_t count) {
    if (error_) return {};
    // In this form the comparison cannot overflow, since at_ never passes the end.
    if (count > file_.size() - at_) {
      fail(Errc::invalid, "the file is cut off or damaged: it ends at byte " +
                              std::to_string(file_.size()) + ", where " + std::to_string(count) +
                              " bytes are said to follow byte " + std::to_string(at_));
      return {};
    }
    const std::string_view taken = file_.substr(at_, static_cast<std::size_t>(count));
    at_ += taken.size();
    return taken;
  }

  template <class T>
  T number() {
    // After a failure the bytes are empty, and the number is 0.
    const std::string_view taken = bytes(sizeof(T));
    return taken.empty() ? T{} : read_as<T>(taken);
  }

  std::string_view text() { return bytes(number<std::uint64_t>()); }

  void read_header(GgufFile& out) {
    if (!file_.starts_with(kMagic)) {
      return fail(Errc::invalid, file_.empty() ? "the file is empty" : "it is not a GGUF file");
    }
    at_ = kMagic.size();
    out.version_ = number<std::uint32_t>();
    if (error_) return;
    // Its version 3 reads as 0x03000000.
    if ((out.version_ & 0xFFFF) == 0) {
      return fail(Errc::unsupported, "it is a big-endian GGUF file");
    }
    if (out.version_ != 2 && out.version_ != 3) {
      return fail(Errc::unsupported, "GGUF version " + std::to_string(out.version_) +
                                         " is not supported, only 2 and 3");
    }
    tensors_ = number<std::uint64_t>();
    keys_ = number<std::uint64_t>();
    if (tensors_ > kMaxTensors || keys_ > kMaxKeys) {
      fail(Errc::limit_exceeded, "it claims " + std::to_string(tensors_) + " tensors and " +
                                     std::to_string(keys_) + " keys");
    }
  }

  void read_key(GgufFile& out) {
    const std::string_view key = text();
    Value value;
    value.type = type();
    if (!error_ && value.type == Type::array) {
      value.is_array = true;
      value.type = type();
      value.count = number<std::uint64_t>();
    }
    if (error_) return;
    if (value.type == Type::array) return fail_here("an array of arrays");
    // A value without an array counts as one element.
    const std::size_t begin = at_;
    if (value.type == Type::string) {
      // Each step takes at least 8 bytes of the file, so a false count cannot make this loop long.
      for (std::uint64_t i = 0; i < value.count && !error_; ++i) text();
    } else {
      const std::size_t width = width_of(value.type);
      // Only the product is used, and bytes() compares it with the file.
      if (value.count > std::numeric_limits<std::uint64_t>::max() / width) {
        return fail_here("an array of " + std::to_string(value.count) + " elements");
      }
      bytes(value.count * width);
    }
    if (error_) return;
    value.bytes = file_.substr(begin, at_ - begin);
    if (!out.values_.emplace(key, value).second) {
      fail_here("the key '" + std::string(key.substr(0, 64)) + "' occurs twice");
    }
  }

  Type type() {
    const auto value = number<std::uint32_t>();
    if (!error_ && value > static_cast<std::uint32_t>(Type::float64)) {
      fail_here("value type " + std::to_string(value) + " does not exist");
    }
    return static_cast<Type>(error_ ? 0 : value);
  }

  void read_tensor(GgufFile& out) {
    Tensor tensor;
    tensor.name = text();
    const auto dimensions = number<std::uint32_t>();
    if (error_) return;
    if (dimensions > kMaxDimensions) {
      return fail_here("a tensor of " + std::to_string(dimensions) + " dimensions");
    }
    for (std::uint32_t i = 0; i < dimensions; ++i) {
      tensor.shape.push_back(number<std::uint64_t>());
    }
    tensor.type = number<std::uint32_t>();
    tensor.offset = number<std::uint64_t>();
    if (!error_) out.tensors_.push_back(std::move(tensor));
  }

  /// Checks that every tensor lies inside the file.
  void check_data(const GgufFile& out) {
    // The data section begins at the next multiple.
    const auto alignment =
        out.integer("general.alignment").value_or(static_cast<std::int64_t>(kDefaultAlignment));
    if (alignment <= 0 || alignment > (1 << 20) || (alignment & (alignment - 1)) != 0) {
      return fail(Errc::invalid, "an alignment of " + std::to_string(alignment) + " bytes");
    }
    const auto step = static_cast<std::uint64_t>(alignment);
    const std::uint64_t begin = (at_ + step - 1) / step * step;
    const std::uint64_t available = file_.size() > begin ? file_.size() - begin : 0;
    constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
    for (const Tensor& tensor : out.tensors_) {
      std::uint64_t elements = 1;
      for (const std::uint64_t length : tensor.shape) {
        if (length != 0 && elements > kMost / length) {
          return fail(Errc::invalid, "the shape of tensor '" + std::string(tensor.name) +
                                         "' is larger than any memory");
        }
        elements *= length;
      }
      // The size of a type that we do not know counts as 0: then only the place is checked, and
      // libllama refuses the type.
      const std::uint64_t size =
          ggml_tensor_bytes(tensor.type, elements, tensor.shape.empty() ? 1 : tensor.shape[0])
              .value_or(0);
      if (tensor.offset > available || size > available - tensor.offset) {
        return fail(Errc::invalid, "the file is cut off or damaged: tensor '" +
                                       std::string(tensor.name.substr(0, 64)) +
                                       "' ends behind its end");
      }
    }
  }

  std::string_view file_;
  std::size_t at_ = 0;
  std::uint64_t keys_ = 0;
  std::uint64_t tensors_ = 0;
  std::optional<Error> error_;
};

Expected<GgufFile> GgufFile::parse(std::string_view file) {
  GgufFile parsed;
  if (Status read = Reader(file).read(parsed); !read) return Unexpected(read.error());
  return parsed;
}

Expected<GgufFile> GgufFile::open(const std::string& path) {
  const auto failure = [] {
    return Unexpected(
        Error{Errc::unavailable, std::error_code(errno, std::generic_category()).message()});
  };
  // O_NONBLOCK, so that a pipe of that name does not block us.
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return failure();
  auto mapping = std::make_shared<Mapping>();
  struct stat info = {};
  if (::fstat(file, &info) != 0) {
    ::close(file);
    return failure();
  }
  // A folder can be opened, but not mapped.
  if (!S_ISREG(info.st_mode)) {
    ::close(file);
    return Unexpected(Error{Errc::invalid, "it is not a file"});
  }
  mapping->size = static_cast<std::size_t>(info.st_size);
  // mmap() refuses a length of 0; parse() says that the file is empty.
  if (mapping->size > 0) {
    void* address = ::mmap(nullptr, mapping->size, PROT_READ, MAP_PRIVATE, file, 0);
    if (address == MAP_FAILED) {
      ::close(file);
      return failure();
    }
    mapping->address = address;
  }
  // The mapping stays.
  ::close(file);
  auto parsed = parse({static_cast<const char*>(mapping->address), mapping->size});
  if (parsed) parsed->mapping_ = std::move(mapping);
  return parsed;
}

const GgufFile::Value* GgufFile::find(std::string_view key, bool is_array) const {
  const auto found = values_.find(key);
  if (found == values_.end() || found->second.is_array != is_array) return nullptr;
  return &found->second;
}

std::optional<std::string_view> GgufFile::string(std::string_view key) const {
  const Value* value = find(key, /*is_array=*/false);
  if (value == nullptr || value->type != Type::string) return std::nullopt;
  // Behind its length, which read_key() has checked.
  return value->bytes.substr(sizeof(std::uint64_t));
}

std::optional<std::int64_t> GgufFile::integer(std::string_view key) const {
  const Value* value = find(key, /*is_array=*/false);
  // A boolean has an accessor of its own, and is no number.
  if (value == nullptr || value->type == Type::boolean) return std::nullopt;
  return integer_of(value->type, value->bytes);
}

std::optional<double> GgufFile::number(std::string_view key) const {
  const Value* value = find(key, /*is_array=*/false);
  if (value == nullptr || value->type == Type::boolean) return std::nullopt;
  return number_of(value->type, value->bytes);
}

std::optional<bool> GgufFile::boolean(std::string_view key) const {
  const Value* value = find(key, /*is_array=*/false);
  if (value == nullptr || value->type != Type::boolean) return std::nullopt;
  return value->bytes.front() != 0;
}

std::vector<std::string_view> GgufFile::strings(std::string_view key) const {
  std::vector<std::string_view> elements;
  const Value* value = find(key, /*is_array=*/true);
  if (value == nullptr || value->type != Type::string) return elements;
  elements.reserve(static_cast<std::size_t>(value->count));  // each has 8 bytes in the file
  std::string_view rest = value->bytes;
  for (std::uint64_t i = 0; i < value->count; ++i) {
    const auto length = static_cast<std::size_t>(read_as<std::uint64_t>(rest));
    rest.remove_prefix(sizeof(std::uint64_t));
    elements.push_back(rest.substr(0, length));
    rest.remove_prefix(length);
  }
  return elements;
}

// The elements of an array, each decoded by `read`; empty if `read` returns nothing for one of
// them.
template <class T>
std::vector<T> GgufFile::elements(std::string_view key,
                                  std::optional<T> (*read)(Type, std::string_view)) const {
  std::vector<T> elements;
  const Value* value = find(key, /*is_array=*/true);
  if (value == nullptr) return elements;
  const std::size_t width = width_of(value->type);
  if (width == 0) return elements;
  elements.reserve(static_cast<std::size_t>(value->count));  // each has `width` bytes in the file
  for (std::size_t at = 0; at < value->bytes.size(); at += width) {
    const auto element = read(value->type, value->bytes.substr(at));
    if (!element) return {};
    elements.push_back(*element);
  }
  return elements;
}

std::vector<std::int64_t> GgufFile::integers(std::string_view key) const {
  return elements<std::int64_t>(key, integer_of);
}

std::vector<double> GgufFile::numbers(std::string_view key) const {
  return elements<double>(key, number_of);
}

std::optional<std::uint64_t> ggml_tensor_bytes(std::uint32_t type, std::uint64_t elements,
                                               std::uint64_t row) {
  // `row` is the first dimension: a row consists of whole blocks.
  const auto* known = std::find_if(std::begin(kGgmlTypes), std::end(kGgmlTypes),
                                   [&](const GgmlType& each) { return each.number == type; });
  if (known == std::end(kGgmlTypes) || row % known->block != 0) return std::nullopt;
  const std::uint64_t blocks = elements / known->block;
  constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
  if (blocks > kMost / known->bytes) return std::nullopt;
  return blocks * known->bytes;
}

}  // namespace tenon::vocab
