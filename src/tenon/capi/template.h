#pragma once

#include <memory>
#include <string>

#include <tenon.h>

#include "tenon/prompt/chat_template.h"

struct tenon_template {
  std::shared_ptr<const tenon::prompt::ChatTemplate> compiled;
  std::string bos_token;  // "": the variable is not defined
  std::string eos_token;
};
