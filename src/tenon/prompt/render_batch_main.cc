#include <iostream>
#include <string_view>

#include "tenon/prompt/render_batch.h"

/// render_batch [render] [--batch] [--spans]: `tenon render --batch` without the rest of tenon.
int main(int count, char** arguments) {
  tenon::prompt::RenderBatchOptions options;
  for (int i = 1; i < count; ++i) options.spans |= std::string_view(arguments[i]) == "--spans";
  std::ios::sync_with_stdio(false);
  std::cin.tie(nullptr);
  return tenon::prompt::render_batch(std::cin, std::cout, options);
}
