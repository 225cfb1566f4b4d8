import io.confluent.parallelconsumer.ParallelConsumerOptions;
import io.confluent.parallelconsumer.ParallelConsumerOptions.ProcessingOrder;
import io.confluent.parallelconsumer.ParallelStreamProcessor;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Records a second of Confluent's parallel-consumer: key order, a handler that
 * takes a millisecond, from the first call of the handler to the end of the last.
 *
 * Rate BOOTSTRAP TOPIC GROUP RECORDS PARALLEL ROUNDS reads the topic once in each
 * round, with a group of its own, and prints one line for each. Several rounds in
 * one virtual machine, because the first one pays for its compiler.
 */
public final class Rate {
    public static void main(String[] args) throws Exception {
        long records = Long.parseLong(args[3]);
        int parallel = Integer.parseInt(args[4]);
        for (int round = 0; round < Integer.parseInt(args[5]); round++) {
            System.out.println(once(args[0], args[1], args[2] + "-" + round, records, parallel));
        }
        System.exit(0); // threads of the last round may still be closing
    }

    private static double once(String bootstrap, String topic, String group, long records, int parallel) throws Exception {
        Properties p = new Properties();
        p.put("bootstrap.servers", bootstrap);
        p.put("group.id", group);
        p.put("enable.auto.commit", "false"); // parallel-consumer commits, and asks for this
        p.put("auto.offset.reset", "earliest");
        p.put("key.deserializer", ByteArrayDeserializer.class.getName());
        p.put("value.deserializer", ByteArrayDeserializer.class.getName());
        KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(p);
        ParallelStreamProcessor<byte[], byte[]> processor = ParallelStreamProcessor.createEosStreamProcessor(
            ParallelConsumerOptions.<byte[], byte[]>builder()
                .consumer(consumer).ordering(ProcessingOrder.KEY).maxConcurrency(parallel).build());
        processor.subscribe(List.of(topic));
        AtomicLong first = new AtomicLong();
        AtomicLong last = new AtomicLong();
        AtomicLong handled = new AtomicLong();
        CountDownLatch done = new CountDownLatch(1);
        processor.poll(record -> {
            first.compareAndSet(0, System.nanoTime());
            try {
                Thread.sleep(1);
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
            if (handled.incrementAndGet() == records) {
                last.set(System.nanoTime());
                done.countDown();
            }
        });
        done.await();
        processor.close();
        return records * 1e9 / (last.get() - first.get());
    }
}
