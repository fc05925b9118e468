# FlintMQ in a container: compiled in one stage, run in another that has no compiler, by a user who is not root.
#
#     docker build -t flintmq .
#     docker run -p 5672:5672 -p 15672:15672 -v flintmq:/var/lib/flintmq -v ./flintmq.toml:/etc/flintmq.toml:ro \
#         -e FLINTMQ_CONFIG=/etc/flintmq.toml flintmq

FROM python:3.12-slim-bookworm AS build
RUN apt-get update && apt-get install --no-install-recommends --yes gcc libc6-dev
WORKDIR /src
COPY pyproject.toml setup.py README.md LICENSE ./
COPY src ./src
# A release that cannot be compiled is none.
RUN python -m venv /opt/flintmq && FLINTMQ_BUILD=compiled /opt/flintmq/bin/pip install --no-cache-dir '.[cluster]'

FROM python:3.12-slim-bookworm
RUN useradd --system --uid 5672 --home-dir /var/lib/flintmq --create-home flintmq
COPY --from=build /opt/flintmq /opt/flintmq
ENV PATH=/opt/flintmq/bin:$PATH \
    FLINTMQ_STORAGE_DIRECTORY=/var/lib/flintmq \
    FLINTMQ_LISTEN_HOST=0.0.0.0 \
    FLINTMQ_MANAGEMENT_HOST=0.0.0.0 \
    FLINTMQ_LOG_FORMAT=json
USER flintmq
WORKDIR /var/lib/flintmq
VOLUME /var/lib/flintmq
EXPOSE 5672 5671 15672 15671 5670
# Without a login: whether the broker says the first word of AMQP.
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s CMD ["flintmq", "ping"]
# What the broker needs to confirm what it has, and to say goodbye; docker kills after 10 s, unless told otherwise.
STOPSIGNAL SIGTERM
ENTRYPOINT ["flintmq"]
CMD ["serve"]
