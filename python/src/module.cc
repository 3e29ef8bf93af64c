#include "common.h"

NB_MODULE(_tenon, m) {
  m.attr("__version__") = tenon_version();
  tenon::python::bind_vocab(m);
  tenon::python::bind_format(m);
  tenon::python::bind_grammar(m);
  tenon::python::bind_template(m);
}
