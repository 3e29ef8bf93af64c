// Any bytes are a GGUF file or refused; what is handed out lies inside of them.
#include "tenon/vocab/gguf.h"

#include "fuzz.h"

using tenon::fuzz::promise;
using tenon::vocab::GgufFile;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes = tenon::fuzz::text_of(data, size);
  const auto file = GgufFile::parse(bytes);
  if (!file) {
    promise(!file.error().message.empty(), "a refusal says why");
    return 0;
  }
  const auto is_inside = [&](std::string_view view) {
    return view.empty() ||
           (view.data() >= bytes.data() && view.data() + view.size() <= bytes.data() + size);
  };
  for (const char* key : {"k", "general.architecture", "general.alignment", "tokens"}) {
    promise(is_inside(file->string(key).value_or("")), "a string lies in the file");
    for (const std::string_view each : file->strings(key)) {
      promise(is_inside(each), "an element lies in the file");
    }
    promise(file->strings(key).size() <= size, "elements are bounded by the file");
    promise(file->integers(key).size() <= size, "elements are bounded by the file");
    static_cast<void>(file->integer(key));
    static_cast<void>(file->boolean(key));
  }
  for (const GgufFile::Tensor& tensor : file->tensors()) {
    promise(is_inside(tensor.name), "a name lies in the file");
    promise(tensor.offset <= size, "a tensor begins in the file");
  }
  return 0;
}
