"""The worker: takes answer ids from RabbitMQ and makes the answers."""
