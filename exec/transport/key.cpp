#include "exec/transport/key.hpp"
