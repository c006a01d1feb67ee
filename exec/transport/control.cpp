#include "exec/transport/control.hpp"
