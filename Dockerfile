# Built in one stage, run in another: no compiler, no package index, no cache reaches the last one.
FROM python:3.11-slim AS build

RUN apt-get update \
 && apt-get install --yes --no-install-recommends gcc libc6-dev

WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY spectator ./spectator
COPY server ./server
COPY static ./static
COPY templates ./templates
RUN python -m pip install --no-cache-dir --disable-pip-version-check --no-deps --target /opt/uv uv \
 && /opt/uv/bin/uv venv --no-python-downloads --python "$(command -v python)" /opt/spectator \
 && /opt/uv/bin/uv pip install --no-cache --compile-bytecode --python /opt/spectator/bin/python '.[server,postgres,voice,collider]'


FROM python:3.11-slim

# The contract is spoken natively, so the package itself (476 MB) is not installed.
LABEL org.opencontainers.image.title="Spectator" \
      org.opencontainers.image.description="Watch agents play" \
      org.opencontainers.image.licenses="MIT" \
      openenv=">=0.9,<0.11"

RUN apt-get update \
 && apt-get install --yes --no-install-recommends espeak-ng fonts-dejavu-core \
 && rm -rf /var/lib/apt/lists/*

RUN useradd --uid 1000 --create-home spectator

COPY --from=build /opt/spectator /opt/spectator

# Everything it writes goes below /tmp, so that it runs under any user id with a read-only root. To keep the
# journal, mount a volume and set SPECTATOR_DATA_DIR to it. OpenEnv's own web page is ours, at /web.
ENV PATH=/opt/spectator/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    SPECTATOR_HOST=0.0.0.0 \
    SPECTATOR_PORT=8000 \
    SPECTATOR_DATA_DIR=/tmp/spectator \
    ENABLE_WEB_INTERFACE=false

USER 1000
WORKDIR /tmp
EXPOSE 8000

HEALTHCHECK --interval=30s --timeout=5s --start-period=30s --retries=3 \
  CMD ["python", "-c", "import http.client, os, sys; c = http.client.HTTPConnection('127.0.0.1', int(os.environ['SPECTATOR_PORT']), timeout=4); c.request('GET', '/health'); sys.exit(c.getresponse().status != 200)"]

# One process: viewers and episodes meet in its memory.
CMD ["server"]
