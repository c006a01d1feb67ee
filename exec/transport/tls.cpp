#include "exec/transport/tls.hpp"
