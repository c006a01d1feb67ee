#include "exec/transport/listener.hpp"
