#include "exec/transport/cancellation.hpp"
