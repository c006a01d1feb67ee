#include "exec/transport/tcp_transport.hpp"
