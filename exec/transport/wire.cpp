#include "exec/transport/wire.hpp"
