"""The way of nginx with its module nchan: what is posted to it goes to every viewer; one process."""

from __future__ import annotations

import asyncio
import http.client
import os
import subprocess
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.peers.orders import obey
from benchmarks.serving import free_port

CONFIGURATION = """
load_module modules/ngx_nchan_module.so;
daemon off;
master_process off;
pid {folder}/pid;
error_log {folder}/error.log;
events {{ worker_connections 20000; }}
http {{
  access_log off;
  client_body_temp_path {folder}/body;
  keepalive_requests 1000000;
  server {{
    listen 127.0.0.1:{port} backlog=4096;
    location = / {{
      nchan_subscriber websocket;
      nchan_channel_id all;
      nchan_websocket_ping_interval 0;
    }}
    location = /publish {{
      nchan_publisher http;
      nchan_channel_id all;
      nchan_message_buffer_length 1;
      client_body_buffer_size 1m;
      client_max_body_size 1m;
    }}
  }}
}}
"""


def main() -> None:
    """Serve and obey; the process that counts is nginx itself."""
    port = free_port()
    with TemporaryDirectory() as folder:
        settings = Path(folder, "nginx.conf")
        settings.write_text(CONFIGURATION.format(folder=folder, port=port))
        with subprocess.Popen(["nginx", "-p", "/usr/share/nginx", "-c", str(settings)]) as nginx:
            os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
            time.sleep(1.0)
            connection = http.client.HTTPConnection("127.0.0.1", port)

            def send(message: str) -> None:
                connection.request("POST", "/publish", message.encode())
                connection.getresponse().read()

            try:
                asyncio.run(obey(port, send, process_id=nginx.pid))
            finally:
                nginx.kill()


if __name__ == "__main__":
    main()
